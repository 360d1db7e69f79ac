"""Ids of tasks: only what we sealed is one, for its caller, while it lives."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.engine import Engine
from understudy.servers.mcp.task_names import TaskName, read_task_id, write_task_id


def engine_at(home: Path) -> Engine:
    return cast(Engine, SimpleNamespace(home=home))  # all that ids need of one


def name_of(principal: str = "ann", **more: Any) -> TaskName:
    values: dict[str, Any] = {
        "principal": principal,
        "conversation_id": "c",
        "message_id": "m",
        "begin": 3,
        "created_ms": int(time.time() * 1000),
        "ttl_ms": 60_000,
        "askable": True,
    }
    return TaskName(**(values | more))


def test_an_id_says_what_it_means_to_its_caller_alone(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    name = name_of()
    task_id = write_task_id(engine, name)
    assert read_task_id(engine, "ann", task_id) == name
    assert read_task_id(engine, "bob", task_id) is None
    assert read_task_id(engine, "", task_id) is None


def test_an_id_ends_with_its_time(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    past = name_of(created_ms=int(time.time() * 1000) - 60_001)
    assert read_task_id(engine, "ann", write_task_id(engine, past)) is None


def test_an_id_of_another_home_is_none(tmp_path: Path) -> None:
    assert read_task_id(engine_at(tmp_path / "b"), "ann", write_task_id(engine_at(tmp_path / "a"), name_of())) is None


def test_whatever_else_is_sent_is_no_id(tmp_path_factory: Any) -> None:
    engine = engine_at(tmp_path_factory.mktemp("home"))
    task_id = write_task_id(engine, name_of())

    @given(st.one_of(st.text(), st.text(alphabet="ABCDabcd0123-_="), st.binary().map(lambda raw: raw.decode("latin-1"))))
    def any_text(text: str) -> None:
        assert text == task_id or read_task_id(engine, "ann", text) is None

    @given(st.integers(0, len(task_id) - 1), st.characters())
    def one_character_changed(place: int, character: str) -> None:
        changed = task_id[:place] + character + task_id[place + 1 :]
        assert changed == task_id or read_task_id(engine, "ann", changed) is None

    any_text()
    one_character_changed()
