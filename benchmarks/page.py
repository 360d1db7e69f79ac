"""`python -m benchmarks.page`: the page in a real browser. How soon it is there, and whether it stays smooth while text pours in.

Counts long tasks (more than 50 ms, in which a browser answers nobody) and frames while an answer of a thousand pieces a second is
streamed for half a minute, first in an empty conversation and then at the end of ten thousand records. Needs Chromium.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.page.browser import CHROMIUM, Chrome, Tab, browsing, shared
from tests.page.rest import Rest
from tests.page.test_keeping_up import ten_thousand
from tests.support.http_server import HttpServer

from benchmarks.report import machine

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
PIECES = 30_000
PAUSE = 0.001  # seconds between pieces, by the clock
_COUNT = """() => {
    window.seen = { tasks: [], frames: 0, began: performance.now() };
    const note = (list) => { for (const task of list.getEntries()) window.seen.tasks.push(task.duration); };
    new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
    (function frame() { window.seen.frames += 1; requestAnimationFrame(frame); })();
}"""
_SAID = "() => document.querySelector('.items > li:last-child .agent-message')?.textContent.trimEnd().endsWith('The last word.')"
_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def speech() -> dict[str, Any]:
    words = [f"w{number % 1000} " if number % 40 else f"\n\n**Paragraph** `{number}`: " for number in range(PIECES)]
    return {"say": [*words, "\n\nThe last word."], "pace": PAUSE}


async def first_paint(chrome: Chrome, tries: int) -> list[float]:
    found: list[float] = []
    for _ in range(tries):
        tab = await chrome.tab()
        await tab.sees("Connected", tab.page.locator(".sidebar"))
        found.append(await tab.page.evaluate(_PAINT))
        await tab.page.close()
    return found


async def stream(tab: Tab) -> dict[str, float]:
    """An answer from its first piece to its last."""
    await tab.page.evaluate(_COUNT)
    await tab.send("Speak")
    await tab.page.locator(".live .prose").wait_for()
    began = time.perf_counter()
    longest = 4_000 * PIECES * PAUSE  # ms
    await tab.page.wait_for_function(_SAID, timeout=longest)  # a look for its text would itself take longer than a frame
    seconds = time.perf_counter() - began
    seen = await tab.page.evaluate("() => ({ ...window.seen, seconds: (performance.now() - window.seen.began) / 1000 })")
    return {
        "pieces a second": PIECES / seconds,
        "long tasks": len(seen["tasks"]),
        "longest task, ms": max(seen["tasks"], default=0.0),
        "frames a second": seen["frames"] / seen["seconds"],
    }


async def empty(server: HttpServer, chrome: Chrome, tries: int) -> dict[str, float]:
    tab = await chrome.log_in()
    paints = await first_paint(chrome, tries)
    await tab.start("Begin", Folder=str(server.cwd))
    await tab.sees("Ready.", tab.timeline)
    return {"first paint, ms": statistics.median(paints), **await stream(tab)}


async def long_conversation(server: HttpServer, chrome: Chrome) -> dict[str, float]:
    rest = Rest(server)
    thread = (await rest.post("/v1/conversations", {"prompt": "Ten thousand", "folder": str(server.cwd)}))["id"]
    await rest.until_idle(thread)
    tab = await chrome.log_in()
    began = time.perf_counter()
    await tab.open(thread)
    await tab.sees("The end.", tab.timeline)
    shown = (time.perf_counter() - began) * 1000
    return {"the end is shown after, ms": shown, **await stream(tab)}


async def measure(tries: int) -> None:
    print(machine())
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        async with browsing(Path(folder), [{"say": "Ready."}, speech()], config=FREE) as (server, chrome):
            print_figures("an empty conversation", await empty(server, chrome, tries))
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        async with browsing(Path(folder), [*ten_thousand(), {"say": "The end."}, speech()], config=FREE) as (server, chrome):
            print_figures("ten thousand records", await long_conversation(server, chrome))
    await shared.close()


def print_figures(title: str, figures: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"  {name:<28} {value:10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--tries", type=int, default=5, help="how often the page is opened for its first paint (%(default)s)")
    options = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("no Chromium is installed (apt-get install chromium, or UNDERSTUDY_CHROMIUM)")
    asyncio.run(measure(options.tries))


if __name__ == "__main__":
    main()
