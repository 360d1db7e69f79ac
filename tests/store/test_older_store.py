"""A store that version 0.1.0 made, by the real program: the present build reads it without loss, and goes on with it.

`made_by_0_1` holds that store and what that version exported of each conversation: turns with reasoning and token counts, a command
and a patch, a fork, one that was archived, one that failed, and one that was killed while a question was open.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.scenes import scene, users_in
from tests.e2e.talking import Stream, listed, send, structured
from tests.support.answered import answered
from understudy.engine.log.fold import State
from understudy.protocol.ids import ConversationId
from understudy.store.log import SavedText
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import say

MADE = Path(__file__).parent / "made_by_0_1"
NAMES = ("plain", "work", "forked", "archived", "failed", "asking")


def unpack(home: Path) -> Path:
    store = home / "understudy"
    store.mkdir(parents=True)
    (store / "conversations.db").write_bytes(gzip.decompress((MADE / "conversations.db.gz").read_bytes()))
    return store


def exported(name: str) -> tuple[ConversationId, list[dict[str, Any]]]:
    header, *entries = [json.loads(line) for line in (MADE / f"{name}.jsonl").read_text().splitlines()]
    return ConversationId(header["conversation_id"]), entries


def holds(now: Any, before: Any) -> bool:
    """Whether all that was there is there still; what has been added since has its default, and defaults may be left out."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            holds(now[key], value) if key in now else value in (None, False)  # pyright: ignore
            for key, value in before.items()  # pyright: ignore
        )
    if isinstance(before, list):
        return len(now) == len(before) and all(holds(one, other) for one, other in zip(now, before, strict=True))  # pyright: ignore
    return bool(now == before)


def test_what_an_older_build_says_while_the_store_is_newer_already_is_read_too(tmp_path: Path) -> None:
    """It had the store open when the newer one came, and keeps the text so far where it always did."""
    conversation, _ = exported("plain")
    with closing(SqliteLog(unpack(tmp_path))) as log:
        connection = sqlite3.connect(log.path)
        with closing(connection), connection:
            said = msgspec.json.encode(SavedText(3, "half an ans"))
            connection.execute("INSERT INTO partials SELECT number, ? FROM conversations WHERE id = ?", (said, conversation))
        assert answered(log.saved_text(conversation)) == SavedText(3, "half an ans")
        log.save_text(conversation, 1 << 40, SavedText(9, "another"))
        log.finish()
        assert answered(log.saved_text(conversation)) == SavedText(9, "another")


@pytest.mark.parametrize("name", NAMES)
def test_every_record_of_it_is_read(tmp_path: Path, name: str) -> None:
    conversation, entries = exported(name)
    with closing(SqliteLog(unpack(tmp_path))) as log:
        read = [msgspec.to_builtins(entry) for entry in answered(log.read(conversation))]
        assert answered(log.check()) == "ok"
    assert len(read) == len(entries)
    for now, before in zip(read, entries, strict=True):
        assert holds(now, before), (now, before)


def test_it_is_listed_as_it_was(tmp_path: Path) -> None:
    with closing(SqliteLog(unpack(tmp_path))) as log:
        titles = {row.conversation_id: (row.summary.title, row.summary.message_count) for row in answered(log.list(10)).rows}
        assert titles == {
            exported("plain")[0]: ("hello", 4),
            exported("work")[0]: ("work", 3),
            exported("forked")[0]: ("one", 4),
            exported("failed")[0]: ("fail", 1),
            exported("asking")[0]: ("ask me", 1),
        }
        assert [row.conversation_id for row in answered(log.list(10, archived=True)).rows] == [exported("archived")[0]]


def test_its_history_means_the_same(tmp_path: Path) -> None:
    with closing(SqliteLog(unpack(tmp_path))) as log:
        plain = State.read(answered(log.read(exported("plain")[0])))
        assert plain.usage is not None
        assert (plain.usage.input_tokens, plain.usage.output_tokens, plain.usage.total_tokens) == (30, 7, 37)
        asking = State.read(answered(log.read(exported("asking")[0])))
        assert (asking.turn, list(asking.questions), asking.status) == ("1", ["call9"], "waiting")


async def test_it_can_be_gone_on_with(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    unpack(home)
    work.mkdir()
    texts = {"plain": ["hello", "again"], "forked": ["one", "three instead"], "failed": ["fail"], "archived": ["archive me"]}
    script = [say(name) for name in (*texts, "asking")]
    async with scene(script, work, home=home) as (model, client):
        for number, (name, said) in enumerate(texts.items()):
            conversation, _ = exported(name)
            stream = Stream(client, conversation, after=len(exported(name)[1]))
            assert structured(await send(client, conversation, "now", cwd=str(work))) == {"status": "ok"}
            await stream.until("task_complete")
            assert users_in(model.requests[number]) == [*said, "now"]
        waiting = [row for row in await listed(client) if row["status"] == "waiting"]
        assert [(row["conversation_id"], row["pending"]) for row in waiting] == [(exported("asking")[0], ["call9"])]
        await send(client, exported("asking")[0], "now", cwd=str(work))
        stream = Stream(client, exported("asking")[0], after=6)
        answered: list[Any] = []

        def is_next(frame: dict[str, Any]) -> bool:
            asked = frame.get("method") == "elicitation/create" and frame["id"] not in answered
            return asked or "task_complete" in stream.kinds()

        while "task_complete" not in stream.kinds():  # asked anew perhaps, because the folder is another one
            frame = await client.wait_for_frame(is_next, "a question or the end")
            if frame.get("method") == "elicitation/create" and frame["id"] not in answered:
                assert frame["params"]["codex_command"] == ["touch", "asked"]
                answered.append(frame["id"])
                await client.respond(frame, {"decision": "denied"})
        assert answered
        assert not (work / "asked").exists()
