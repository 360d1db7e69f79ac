"""What clients are given to bring back: event ids, sealed states, names of questions, tokens; and the hosts they may name."""

import os
import re
from base64 import urlsafe_b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.config.tokens import NamedToken, hash_of, read_tokens, write_tokens
from understudy.engine.handle import Handle
from understudy.errors import ConfigError
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import CommandApprovalAsked
from understudy.servers.http.guards import Guards, accepts, is_json, split_host
from understudy.servers.mcp.asking import AskedQuestion, digest_of, find_asked, question_name, read_question_name
from understudy.servers.mcp_http.ids import (
    CallStream,
    StreamName,
    StreamPlace,
    StreamPosition,
    read_event_id,
    read_stream_places,
    write_event_id,
    write_stream_place,
)
from understudy.servers.sealing import IdSeal

IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))
UUIDS = st.uuids().map(str)
MARKS = st.one_of(st.sampled_from("trw"), st.integers(0, 2**32 - 1).map(lambda n: f"o{n:08x}"))
HEADERS = st.text(st.characters(max_codepoint=255), max_size=60)


@given(
    request_id=IDS,
    token=st.none() | IDS,
    conversation=UUIDS,
    message=UUIDS,
    begin=st.integers(0, 10**9),
    further=st.integers(0, 10**9),
    messages=st.integers(0, 10**8),
    progress=st.integers(0, 10**9),
    marks=st.dictionaries(MARKS, st.integers(0, 10**14), max_size=5),
)
def test_an_event_id_says_what_it_was_made_of(
    request_id: int | str,
    token: int | str | None,
    conversation: str,
    message: str,
    begin: int,
    further: int,
    messages: int,
    progress: int,
    marks: dict[str, int],
) -> None:
    stream = CallStream(request_id, token, ConversationId(conversation), message, begin)
    position = StreamPosition(begin + further, messages, progress, marks)
    written = write_event_id(stream.encode(), position).decode()
    assert written.isascii()
    assert written.isprintable()
    assert read_event_id(written) == (stream, position)


POSITIONS = st.builds(
    StreamPosition,
    record=st.integers(0, 10**9),
    messages=st.integers(0, 10**8),
    given=st.dictionaries(MARKS, st.integers(0, 10**14), max_size=3),
    asked=st.frozensets(st.integers(0, 2**32 - 1).map(lambda n: f"{n:08x}"), max_size=3),
)
STREAMS = st.builds(StreamName, IDS, UUIDS.map(ConversationId), st.none() | IDS, st.none() | st.integers(0, 10**9))


@given(st.lists(st.builds(StreamPlace, STREAMS, st.none() | POSITIONS), min_size=1, max_size=4))
def test_an_event_id_of_a_listener_says_where_each_conversation_stands(places: list[StreamPlace]) -> None:
    written = ""
    for place in places:
        name = place.stream.encode()
        written += "~" + (name if place.seen is None else write_stream_place(name, place.seen).decode())
    assert written.isascii()
    assert written.isprintable()
    assert read_stream_places(written) == places


@given(st.one_of(HEADERS, st.from_regex(r"(~[A-Za-z0-9_-]{1,60}(\.\d{1,5}\.\d{1,3}(\.[a-z0-9-]{1,30})?)?){1,3}", fullmatch=True)))
def test_a_forged_event_id_of_a_listener_is_none_or_names_conversations(text: str) -> None:
    for place in read_stream_places(text) or ():
        assert str(UUID(place.stream.conversation_id)) == place.stream.conversation_id


@given(st.one_of(HEADERS, st.from_regex(r"[A-Za-z0-9_-]{1,60}\.\d{1,5}\.\d{1,3}\.\d{1,3}(\.[a-z0-9-]{1,30})?", fullmatch=True)))
def test_a_forged_event_id_is_none_or_names_a_stream(text: str) -> None:
    found = read_event_id(text)
    if found is not None:
        stream, position = found
        assert str(UUID(stream.conversation_id)) == stream.conversation_id
        assert str(UUID(stream.message_id)) == stream.message_id
        assert 0 <= stream.begin <= position.record


@given(body=st.binary(max_size=200), at=st.integers(0), flip=st.integers(1, 255), text=HEADERS)
def test_a_seal_opens_only_what_it_closed(body: bytes, at: int, flip: int, text: str) -> None:
    with TemporaryDirectory() as folder:
        seal = IdSeal(Path(folder), b"one")
        closed = seal.close(body)
        assert seal.open(closed) == body
        assert IdSeal(Path(folder), b"one").open(closed) == body  # by another process, too
        assert IdSeal(Path(folder), b"other").open(closed) is None
        at %= len(closed)
        changed = chr((ord(closed[at]) ^ flip) % 128)
        if changed != closed[at]:
            assert seal.open(closed[:at] + changed + closed[at + 1 :]) is None
        for other in (closed + "=", closed + "\n", " " + closed, closed[:-1], "", text):
            assert other == closed or seal.open(other) is None
        assert (Path(folder) / "serve.key").stat().st_mode & 0o777 == 0o600
        with TemporaryDirectory() as elsewhere:
            assert IdSeal(Path(elsewhere), b"one").open(closed) is None


@pytest.mark.parametrize("content", [b"", b"k" * 31])
def test_a_key_that_is_too_short_seals_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "serve.key").write_bytes(content)
    os.chmod(tmp_path / "serve.key", 0o600)
    with pytest.raises(ConfigError, match="does not hold a key"):
        IdSeal(tmp_path, b"one")


NAMES = st.builds(
    lambda *members: "q." + urlsafe_b64encode(msgspec.msgpack.encode(members)).decode(),
    UUIDS | st.text(max_size=40),
    st.text(max_size=40),
    st.text(max_size=10),
    st.binary(max_size=10),
)


@given(st.one_of(NAMES, st.text(max_size=80), st.binary(max_size=60).map(lambda raw: "q." + raw.hex()), st.integers(), st.none()))
def test_the_name_of_a_question_is_none_or_names_a_conversation(text: object) -> None:
    found = read_question_name(text)
    assert found is None or str(UUID(found.conversation_id)) == found.conversation_id


QUESTIONS = st.builds(
    CommandApprovalAsked,
    call_id=st.text(max_size=600),
    command=st.lists(st.text(max_size=50)).map(tuple),
    cwd=st.text(max_size=300),
)


@given(UUIDS, st.text(max_size=600), QUESTIONS, st.floats(0, 4e9), st.text(max_size=600), st.floats(0, 4e9))
def test_the_key_of_a_question_is_short_and_means_that_question_alone(
    conversation_id: str, turn: str, question: CommandApprovalAsked, asked_at: float, other_turn: str, later: float
) -> None:
    key = question_name(conversation_id, turn, question, asked_at)
    assert re.fullmatch(r"[\x21-\x7e]{1,48}", key)
    found = read_question_name(key)
    assert found is not None
    assert find_asked(asking(conversation_id, turn, question, asked_at), found) == AskedQuestion(question, turn, asked_at)
    assert turn == other_turn or find_asked(asking(conversation_id, other_turn, question, asked_at), found) is None
    assert asked_at == later or find_asked(asking(conversation_id, turn, question, later), found) is None
    assert find_asked(asking(str(UUID(int=1)), turn, question, asked_at), found) is None
    long = (conversation_id, turn, question.call_id, digest_of(question), asked_at)  # as earlier builds wrote them
    assert read_question_name("q." + urlsafe_b64encode(msgspec.msgpack.encode(long)).decode()) == found


def asking(conversation_id: str, turn: str, question: CommandApprovalAsked, asked_at: float) -> Handle:
    facts = SimpleNamespace(turn=turn, questions={question.call_id: question}, asked_at={question.call_id: asked_at})
    return cast(Handle, SimpleNamespace(id=conversation_id, facts=facts))


@settings(max_examples=30)
@given(
    st.lists(
        st.builds(
            NamedToken,
            name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,20}", fullmatch=True).filter(lambda name: name != "local"),
            hash=st.text(max_size=40).map(lambda text: hash_of(text.encode(errors="replace").decode())),
            rights=st.sampled_from([(), ("run",), ("read", "approve")]),
            others=st.sampled_from([(), ("read",)]),
            roots=st.none() | st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map("/{}".format)).map(tuple),
        ),
        max_size=4,
        unique_by=lambda token: token.name,
    )
)
def test_tokens_are_read_as_they_were_written(tokens: list[NamedToken]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.toml"
        write_tokens(path, tokens)
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(read_tokens(path)) == tokens


LABELS = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
FOREIGN = st.builds("{}.{}".format, LABELS, st.sampled_from(["example", "localhost.example", "127.0.0.1.example"]))


@given(FOREIGN, st.sampled_from(["", ":8722", ":80"]), st.sampled_from(["http", "https"]), st.booleans(), st.booleans())
def test_a_foreign_name_is_neither_host_nor_origin(name: str, port: str, scheme: str, open_to_all: bool, beyond: bool) -> None:
    guards = Guards("0.0.0.0" if beyond else "127.0.0.1", 8722, (), (), open_to_all=open_to_all)
    assert not guards.allows_host(name + port)
    for trick in (
        name + port,
        f"localhost@{name}",
        f"{name}@localhost",
        f"localhost#{name}",
        f"localhost\\{name}",
        f"{name}/localhost",
    ):
        assert not guards.allows_origin(f"{scheme}://{trick}", "localhost:8722"), trick


@given(HEADERS)
def test_guards_take_any_header(text: str) -> None:
    guards = Guards("127.0.0.1", 8722, ("agents.example.org",), ("https://app.example.org",), open_to_all=True)
    split = split_host(text)
    if guards.allows_host(text):
        assert split is not None
        assert split[0] in ("localhost", "127.0.0.1", "::1", "agents.example.org")
    assert guards.allows_origin(text, text) in (True, False)
    assert accepts(text, "application/json") in (True, False)
    assert is_json(text) in (True, False)
