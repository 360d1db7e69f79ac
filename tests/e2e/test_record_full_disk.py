"""A disk that gets full in the middle of a recorded line leaves no half line behind, and the next session is recorded whole."""

import json
import resource
from pathlib import Path

import pytest

from tests.e2e.scenes import text_of
from tests.e2e.test_record_replay import lines, recording, replaying
from understudy.testing import say

LARGE = 16 * 1024 * 1024  # more than the store has: what limits the recording then limits nothing else


@pytest.mark.slow
async def test_half_a_line_is_taken_back(tmp_path: Path) -> None:
    """The disk takes 1000 bytes more, which is less than any request has, and later everything."""
    file = tmp_path / "session.jsonl"
    earlier = {"wire": "chat", "request": {"filler": "x" * LARGE}}
    file.write_text(json.dumps(earlier, separators=(",", ":")) + "\n")
    before = file.stat().st_size
    async with recording([say("one"), say("two"), say("three")], tmp_path, "chat") as (_, client):
        assert text_of(await client.call_tool("codex", prompt="first")) == "one"
        whole = file.stat().st_size
        assert whole > before + 1000
        _, most = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (whole + 1000, most))
        refused = await client.call_tool("codex", prompt="second")
        assert refused["isError"]
        assert "cannot record to" in text_of(refused)
        assert file.stat().st_size == whole, "half a line is left"
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert text_of(await client.call_tool("codex", prompt="third")) == "three"
    recorded = lines(tmp_path)
    assert [line["request"]["messages"][-1]["content"] for line in recorded[1:]] == ["first", "third"]
    file.write_text(json.dumps(recorded[2]) + "\n")
    async with replaying(tmp_path) as client:
        assert text_of(await client.call_tool("codex", prompt="third")) == "three"
