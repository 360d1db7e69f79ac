"""Which containment allows no more than another: what is typed at a command that goes on depends on it."""

from dataclasses import replace

import pytest

from understudy.sandbox.spec import Containment

NOW = Containment("workspace-write", ("/w", "/x"), network="loopback", masked=("/m",), protected=(".git",))


@pytest.mark.parametrize(
    "before",
    [
        NOW,
        replace(NOW, writable_roots=("/x",)),
        replace(NOW, mode="read-only", protected=()),
        replace(NOW, network="off"),
        replace(NOW, masked=("/m", "/n")),
        replace(NOW, protected=(".git", ".codex")),
        replace(NOW, private_tmp="/elsewhere"),
    ],
)
def test_as_much_or_less_is_no_more(before: Containment) -> None:
    assert before.allows_no_more_than(NOW)


@pytest.mark.parametrize(
    "before",
    [
        replace(NOW, writable_roots=("/w", "/x", "/y")),
        replace(NOW, network="on"),
        replace(NOW, unix_sockets=True),
        replace(NOW, masked=()),
        replace(NOW, protected=()),
    ],
)
def test_each_thing_more_is_more(before: Containment) -> None:
    assert not before.allows_no_more_than(NOW)
    assert not NOW.allows_no_more_than(replace(NOW, mode="read-only"))
