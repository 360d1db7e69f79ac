"""The page about several servers on one log: what it tells to configure and to type works, on a server of PostgreSQL."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.docs.blocks import ROOT, blocks
from tests.support.postgres import the_server
from understudy.testing import McpProcess, ScriptedModel, say

PAGE = ROOT / "docs" / "many-machines.md"
WRITTEN = "postgresql://understudy@db.internal/understudy"


@pytest.mark.slow
async def test_conversations_move_as_the_page_says_and_are_gone_on_with(tmp_path: Path) -> None:
    url = the_server().new_tables()
    home = tmp_path / "home"
    program = Program(home, tmp_path)
    pieces = [(block.language, block.text.replace(WRITTEN, url)) for block in blocks() if block.page == PAGE]
    assert [language for language, _ in pieces] == ["toml", "sh", "sh", "sh", "toml"]
    pieces[4] = (pieces[4][0], pieces[4][1].replace("/etc/understudy/audit.key", str(home / "understudy" / "audit.key")))
    async with ScriptedModel([say("one"), say("two")]) as model:
        async with McpProcess(model, cwd=tmp_path, home=home) as client:
            thread = (await client.call_tool("codex", prompt="1"))["structuredContent"]["threadId"]
        config = home / "config.toml"
        for language, text in pieces:
            if language == "toml":
                config.write_text(config.read_text() + "\n" + text)
                continue
            for line in text.splitlines():
                ended = program.call(*line.removeprefix("understudy ").split())
                assert ended.code == 0, (line, ended.err)
        assert program.json("conversations", "--json")[0]["conversation_id"] == thread
        assert program.call("verify").code == 0
        async with McpProcess(None, cwd=tmp_path, home=home) as client:
            answer = await client.call_tool("codex-reply", threadId=thread, prompt="2")
            assert answer["structuredContent"]["content"] == "two"
    with closing(sqlite3.connect(home / "understudy" / "conversations.db")) as file:
        assert file.execute("SELECT count(*) FROM records").fetchone()[0] > 0, "the old store is left as it was"


def test_the_page_names_every_command_of_the_store() -> None:
    text = PAGE.read_text()
    for action in ("init", "check", "move"):
        assert f"store {action}" in text
