"""A flame graph as SVG, from stacks sampled by py-spy (which is not among our dependencies: name it, or have it on the PATH)."""

import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.profiling.functions import WORK

WIDTH, ROW, LEAST = 1200, 17, 0.004  # frames with less than this share are left out
WAITS = ("Writer._work",)  # py-spy takes a thread that waits for a queue for a busy one


@dataclass
class Frame:
    name: str
    count: int = 0
    inner: dict[str, "Frame"] = field(default_factory=dict[str, "Frame"])


def find_py_spy() -> str | None:
    return shutil.which("py-spy")


def record(bench: Bench, name: str, py_spy: str) -> list[tuple[list[str], int]]:
    """Stacks with the number of times each was seen."""
    work = WORK[name][2]
    folder = bench.folder()
    output = folder / "stacks"
    with bench.fresh() as client:
        client.initialize()
        client.begin_session()
        command = [
            py_spy,
            "record",
            "--pid",
            str(client.pid),
            "--format",
            "raw",
            "--rate",
            "500",
            "--duration",
            "600",
            "-o",
            str(output),
        ]
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            time.sleep(1.0)  # it says nothing when it has begun
            work(client, bench)
        finally:
            sampler.send_signal(signal.SIGINT)
            _, errors = sampler.communicate(timeout=30)
    if not output.exists():
        raise RuntimeError(f"py-spy recorded nothing: {errors.decode(errors='replace').strip()}")
    found: list[tuple[list[str], int]] = []
    for line in output.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_shortened(frame) for frame in stack.split(";")]
        if not frames[-1].startswith(WAITS):
            found.append((frames, int(count)))
    return found


def _shortened(frame: str) -> str:
    """Without line numbers, so that one function is one frame."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0].partition("understudy/")[2] or Path(place.rpartition(":")[0]).name
    return f"{name} ({file})" if file else name


def flame_graph(stacks: list[tuple[list[str], int]], title: str, path: Path) -> None:
    root = Frame("all")
    for stack, count in stacks:
        start = next((index for index, frame in enumerate(stack) if "Runner.run" in frame), 0)  # nothing is learnt below the loop
        frame = root
        frame.count += count
        for name in stack[start:]:
            frame = frame.inner.setdefault(name, Frame(name))
            frame.count += count
    shapes: list[str] = []
    depth = _draw(root, 0.0, 0, root.count, shapes)
    height = (depth + 3) * ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="8" y="14" font-size="13">{escape(title)}</text>'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(shapes) + "</svg>\n")


def _draw(frame: Frame, x: float, level: int, total: int, shapes: list[str]) -> int:
    """Frames hang down from the loop. The deepest level drawn."""
    width = frame.count / total * WIDTH
    y = (level + 1.5) * ROW
    share = frame.count / total
    label = escape(frame.name[: max(0, int(width / 6.7))]) if width > 30 else ""
    shapes.append(
        f'<g><title>{escape(frame.name)}: {share:.1%}</title><rect x="{x:.1f}" y="{y:.0f}" width="{max(width - 0.5, 0.5):.1f}" '
        f'height="{ROW - 1}" fill="{_colour(frame.name)}"/><text x="{x + 3:.1f}" y="{y + 12:.0f}">{label}</text></g>'
    )
    deepest = level
    for inner in sorted(frame.inner.values(), key=lambda each: -each.count):
        if inner.count / total >= LEAST:
            deepest = max(deepest, _draw(inner, x, level + 1, total, shapes))
        x += inner.count / total * WIDTH
    return deepest


COLOURS = {
    "models": "#9ecae1",
    "engine": "#a1d99b",
    "servers": "#fdae6b",
    "store": "#bcbddc",
    "tools": "#fc9272",
    "sandbox": "#fc9272",
}


def _colour(name: str) -> str:
    place = name.rpartition("(")[2]
    return next((colour for layer, colour in COLOURS.items() if place.startswith(layer + "/")), "#d9d9d9")
