"""Ids of tasks: short, and only what we sealed is one, for its caller, while it lives."""

import re
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.servers.mcp.task_names import TaskName, mark_of, read_task_id, ttl_as_told, write_task_id
from understudy.servers.sealing import IdSeal

CONVERSATION = "0d4b3f8e-8a87-4c12-9c3e-5b7f6e1d2a90"
TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000
SOON_MS = int((time.time() + 4 * 3600) * 1000)  # the tests may run long after they were collected
SHORT = re.compile(r"[\x21-\x7e]{1,48}")


def engine_at(home: Path) -> Engine:
    return cast(Engine, SimpleNamespace(home=home))  # all that ids need of one


def name_of(**more: Any) -> TaskName:
    values: dict[str, Any] = {
        "conversation_id": CONVERSATION,
        "mark": mark_of("m"),
        "begin": 3,
        "created_ms": SOON_MS,
        "ttl_ms": 60_000,
        "askable": True,
    }
    return TaskName(**(values | more))


NAMES = st.builds(
    TaskName,
    conversation_id=st.uuids().map(str),
    mark=st.text(max_size=300).map(mark_of),
    begin=st.integers(-1, 2**22 - 2),
    created_ms=st.integers(SOON_MS, SOON_MS + TEN_YEARS_MS),
    ttl_ms=st.integers(60_000, TEN_YEARS_MS).map(ttl_as_told),
    askable=st.booleans(),
    full_report=st.booleans(),
)
CALLERS = st.text(st.characters(codec=None), max_size=2000)


@given(NAMES, CALLERS, CALLERS)
@example(name_of(), "\ud800", "")
@example(name_of(), "a", "a\0")
def test_an_id_is_short_and_says_what_it_means_to_its_caller_alone(name: TaskName, caller: str, other: str) -> None:
    with TemporaryDirectory() as folder:
        engine = engine_at(Path(folder))
        task_id = write_task_id(engine, caller, name)
        assert SHORT.fullmatch(task_id)
        assert read_task_id(engine_at(Path(folder)), caller, task_id) == name
        assert other == caller or read_task_id(engine, other, task_id) is None


@given(st.integers(1, TEN_YEARS_MS))
def test_a_task_lives_as_long_as_was_configured_or_a_little_longer(wanted: int) -> None:
    told = ttl_as_told(wanted)
    assert wanted <= told <= wanted * 1.02 + 1
    assert ttl_as_told(told) == told


def test_times_that_people_write_down_are_told_exactly() -> None:
    for seconds in (0.05, 1, 2.5, 45, 90, 600, 3600, 86_400, 36 * 3600, 7 * 86_400, 30 * 86_400, 365 * 86_400, 3650 * 86_400):
        assert ttl_as_told(round(seconds * 1000)) == round(seconds * 1000)


def test_reading_begins_earlier_where_a_conversation_is_longer_than_an_id_can_say(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    found = read_task_id(engine, "ann", write_task_id(engine, "ann", name_of(begin=2**40)))
    assert found == name_of(begin=2**22 - 2)


def test_an_id_ends_with_its_time(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    past = name_of(created_ms=int(time.time() * 1000) - 60_001)
    assert read_task_id(engine, "ann", write_task_id(engine, "ann", past)) is None


def test_an_id_of_another_home_is_none(tmp_path: Path) -> None:
    task_id = write_task_id(engine_at(tmp_path / "a"), "ann", name_of())
    assert read_task_id(engine_at(tmp_path / "b"), "ann", task_id) is None


def test_an_id_that_an_earlier_build_wrote_is_understood(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    seal = IdSeal(state_dir(tmp_path), b"task")
    members = ("ann", CONVERSATION, "m", 3, SOON_MS, 60_000, True)
    task_id = seal.close(msgspec.msgpack.encode(members))
    assert len(task_id) > 48
    assert read_task_id(engine, "ann", task_id) == name_of()
    assert read_task_id(engine, "bob", task_id) is None
    assert read_task_id(engine, "ann", seal.close(msgspec.msgpack.encode((*members[:4], 1, *members[5:])))) is None  # expired
    assert read_task_id(engine, "ann", seal.close(b"x" * 60)) is None


def test_whatever_else_is_sent_is_no_id(tmp_path_factory: Any) -> None:
    engine = engine_at(tmp_path_factory.mktemp("home"))
    task_id = write_task_id(engine, "ann", name_of())

    @given(st.one_of(st.text(), st.text(alphabet="ABCDabcd0123-_="), st.binary().map(lambda raw: raw.decode("latin-1"))))
    def any_text(text: str) -> None:
        assert text == task_id or read_task_id(engine, "ann", text) is None

    @given(st.integers(0, len(task_id) - 1), st.characters())
    def one_character_changed(place: int, character: str) -> None:
        changed = task_id[:place] + character + task_id[place + 1 :]
        assert changed == task_id or read_task_id(engine, "ann", changed) is None

    any_text()
    one_character_changed()


def test_the_seal_of_one_caller_fits_no_shorter_body_for_another(tmp_path: Path) -> None:
    """What is sealed begins with the caller's name: a name that ends in a piece of a body must gain nothing by that."""
    engine, short = engine_at(tmp_path), b"short task" + bytes(1)
    sealed = IdSeal(state_dir(tmp_path), short + b"a", 6).close_bytes(b"xxx" + bytes(27))
    rest = sealed[4:]
    assert IdSeal(state_dir(tmp_path), short + b"a" + bytes(1) + b"xxx", 6).open_bytes(rest) == bytes(26)
    assert read_task_id(engine, "a\x00xxx", urlsafe_b64encode(rest).decode().rstrip("=")) is None
