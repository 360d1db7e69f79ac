"""What others wrote stays text in log lines: a terminal obeys nothing in them, and none of it can pass for a line of ours."""

import io
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.program import Program
from understudy.servers.process.log_lines import PlainLines
from understudy.testing import McpProcess, ScriptedModel, say

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "odd\x1b]0;owned\x07\x1b[31m\u202e\nunderstudy: WARNING: all is well"


def written(message: str, error: BaseException | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines("understudy: %(levelname)s: %(message)s"))
    raised = None if error is None else (type(error), error, None)
    handler.handle(logging.LogRecord("x", logging.WARNING, "", 1, "%s", (message,), raised))
    return stream.getvalue().removesuffix("\n")


@given(st.text(), st.none() | st.text().map(ValueError))
def test_no_text_is_obeyed_or_begins_a_line(message: str, error: ValueError | None) -> None:
    first, *others = written(message, error).split("\n")
    assert not OBEYED.search("".join((first, *others)))
    assert first.startswith("understudy: WARNING: ")
    assert not any(line.startswith("understudy: ") for line in others)


def test_a_plain_line_is_as_it_was_written() -> None:
    assert written("a folder `/tmp/ä b` is gone") == "understudy: WARNING: a folder `/tmp/ä b` is gone"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A project whose name commands a terminal, and which a warning has to name."""
    folder = tmp_path / HOSTILE
    (folder / ".git").mkdir(parents=True)
    (folder / "AGENTS.md").symlink_to("/etc/hostname")
    return folder


async def test_a_server_names_a_hostile_folder_harmlessly(odd: Path) -> None:
    async with ScriptedModel([say("done")]) as model, McpProcess(model.url, cwd=odd) as client:
        await client.call_tool("codex", prompt="go")
    assert "AGENTS.md was not read" in client.stderr
    assert not OBEYED.search(client.stderr)
    assert "\nunderstudy: WARNING: all is well" not in client.stderr


def test_a_command_names_a_hostile_folder_harmlessly(odd: Path, tmp_path: Path) -> None:
    ended = Program(tmp_path, odd).run("doctor")
    assert "AGENTS.md was not read" in ended.err
    assert not OBEYED.search(ended.err)
    assert "\nunderstudy: WARNING: all is well" not in ended.err
