"""Ops as bytes: what one process leaves for another, and what an earlier build has left."""

from __future__ import annotations

import msgspec
import pytest

from understudy.protocol.callers import ALL_RIGHTS, LOCAL, Caller
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Archive, Cancel, Decide, Delete, Interrupt, Op, Resume, Send
from understudy.protocol.records import UserMessage

decode = msgspec.json.Decoder(Op).decode
MESSAGE = UserMessage("m1", Message("user", (InputText("hi"),)))

OPS: list[Op] = [
    Send(MESSAGE, "ann"),
    Interrupt("3", "ann"),
    Cancel("m1", "3", "ann"),
    Decide("call1", "approved", "client", "3", "ann"),
    Resume("ann"),
    Archive(archived=False, by="ann"),
    Delete("ann"),
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
def test_an_op_is_the_same_after_a_trip_through_its_bytes(op: Op) -> None:
    assert decode(msgspec.json.encode(op)) == op


@pytest.mark.parametrize(
    ("left", "op"),
    [
        (
            b'{"type":"send","message":{"type":"user_message","message_id":"m1","message":{"type":"message","role":"user",'
            b'"content":[{"type":"input_text","text":"hi"}]},"overrides":null,"parent_message_id":null,"pins":null}}',
            Send(MESSAGE),
        ),
        (b'{"type":"interrupt","turn":"2"}', Interrupt("2")),
        (b'{"type":"interrupt"}', Interrupt()),
        (
            b'{"type":"decide","call_id":"c","decision":"denied","source":"client","turn":""}',
            Decide("c", "denied", "client"),
        ),
    ],
)
def test_what_an_earlier_build_left_is_said_by_the_local_user(left: bytes, op: Op) -> None:
    assert decode(left) == op


def test_a_caller_has_rights_on_its_own_conversations_and_perhaps_others_on_everybody_elses() -> None:
    ann = Caller("ann", frozenset({"run", "read"}), frozenset({"read"}))
    assert [right for right in ("run", "approve", "read") if ann.may(right, "ann")] == ["run", "read"]
    assert [right for right in ("run", "approve", "read") if ann.may(right, "ben")] == ["read"]
    assert not any(Caller("ben").may(right, "ann") for right in ALL_RIGHTS)


def test_the_local_user_may_do_everything_with_every_conversation() -> None:
    assert all(LOCAL.may(right, owner) for right in ALL_RIGHTS for owner in ("local", "ann"))
