"""A conversation of many turns under a small window, measured: `python -m tests.soak.long_conversation --plot FILE.svg`.

What has to stay flat is the server's memory, the size of a request and the time of a turn, however long the conversation gets.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.e2e.scenes import resident_bytes, text_of, thread_of
from tests.soak.remembering_model import SUM_UP, RememberingModel
from understudy.testing import McpProcess
from understudy.testing.script import Wire

WINDOW = 16_000
GOAL = "paint the shed blue before the winter"
MB = 1 << 20


@dataclass
class Lived:
    """What was seen of a long conversation. Of each turn: seconds, resident memory, tokens of its largest request."""

    answer: str = ""
    total: int = 0
    seconds: list[float] = field(default_factory=list[float])
    memory: list[int] = field(default_factory=list[int])
    tokens: list[int] = field(default_factory=list[int])


async def live(model: RememberingModel, cwd: Path, turns: int, *, wire: Wire = "chat", home: Path | None = None) -> Lived:
    config = {"model_context_window": WINDOW, "compact_prompt": SUM_UP}
    lived = Lived()
    async with McpProcess(model.url, cwd=cwd, wire=wire, config=config, home=home) as client:
        thread = ""
        for turn in range(1, turns + 1):
            add = turn * 7 % 100
            lived.total += add
            look = " and look" if turn % 5 == 0 else ""
            goal = f"Remember: the goal is to {GOAL}. " if turn == 1 else ""
            prompt = f"{goal}Turn {turn}: add {add}{look}."
            asked, began = len(model.asked), time.perf_counter()
            arguments = {"prompt": prompt} | ({"threadId": thread} if thread else {})
            result = await client.call_tool("codex-reply" if thread else "codex", arguments)
            lived.seconds.append(time.perf_counter() - began)
            lived.memory.append(resident_bytes(client.process.pid))
            lived.tokens.append(max((one.tokens for one in model.asked[asked:]), default=0))
            thread = thread_of(result)
            client.frames.clear()
        lived.answer = text_of(await client.call_tool("codex-reply", threadId=thread, prompt="Tell me the goal and the total."))
    return lived


def report(model: RememberingModel, lived: Lived) -> str:
    tenth = max(len(lived.seconds) // 10, 1)
    early, late = slice(tenth, 2 * tenth), slice(-tenth, None)
    return "\n".join([
        f"{len(lived.seconds)} turns, {model.summaries} summaries, {model.trims} times only outputs left out",
        f"at the end: {lived.answer}",
        f"largest request: {max(lived.tokens)} tokens of {WINDOW}",
        f"turn, median: {median(lived.seconds[early]) * 1000:.1f} ms early, {median(lived.seconds[late]) * 1000:.1f} ms late",
        f"memory, median: {median(lived.memory[early]) / MB:.1f} MB early, {median(lived.memory[late]) / MB:.1f} MB late",
    ])  # fmt: skip


def plot(lived: Lived) -> str:
    from benchmarks.svg import line_chart

    step = max(len(lived.seconds) // 50, 1)

    def line(values: list[float]) -> dict[float, float]:
        return {float(at + step): median(values[at : at + step]) for at in range(0, len(values) - step + 1, step)}

    lines = {
        "turn, ms (median)": line([seconds * 1000 for seconds in lived.seconds]),
        "memory, MB": line([resident / MB for resident in lived.memory]),
        "request, thousand tokens": line([tokens / 1000 for tokens in lived.tokens]),
    }
    return line_chart(f"A conversation of {len(lived.seconds)} turns under a window of {WINDOW} tokens", "turn", "", lines)


async def _main(turns: int, wire: Wire, picture: Path | None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        model = RememberingModel(WINDOW)
        async with model:
            lived = await live(model, Path(folder), turns, wire=wire)
        print(report(model, lived))
        for fault in model.faults[:20]:
            print(f"fault: {fault}")
    if picture is not None:
        picture.write_text(plot(lived))
    right = lived.answer == f"the goal is to {GOAL}. the total is {lived.total}."
    return 0 if right and not model.faults else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--wire", choices=("chat", "responses"), default="chat")
    parser.add_argument("--plot", type=Path)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(_main(chosen.turns, chosen.wire, chosen.plot)))
