"""How much a long answer writes: the text so far is added to, never written anew."""

from pathlib import Path

import pytest

from tests.e2e.scenes import scene, text_of
from tests.e2e.test_large_answers import MIB, recorded, text_events
from understudy.testing import McpProcess, Step


def written(client: McpProcess) -> int:
    """Bytes that the server has had written to the disk."""
    counters = dict(line.split(": ") for line in Path(f"/proc/{client.process.pid}/io").read_text().splitlines())
    return int(counters["write_bytes"])


@pytest.mark.slow
async def test_a_long_answer_writes_less_than_three_times_its_size(tmp_path: Path) -> None:
    piece = "".join(f"{number * 7919 % 10007} words of an answer, " for number in range(2500))  # about as regular as prose
    count = 3 * MIB // len(piece)
    steps: list[Step] = []
    for step in text_events("chat", piece, count):
        steps += [step, 0.01]
    steps.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    async with scene([recorded(steps)], tmp_path) as (_, client):
        before = written(client)
        result = await client.call_tool("codex", prompt="write")
        assert text_of(result) == piece * count
        assert written(client) - before < 3 * len(piece) * count
