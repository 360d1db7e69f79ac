"""The modules a server imports until its first turn is done, and what each costs, by `-X importtime`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks.bench import Bench
from benchmarks.figures import median
from benchmarks.profiling.launch import with_python


@dataclass(frozen=True)
class Imported:
    name: str
    own: float  # milliseconds, without what it imports itself
    depth: int
    before_hello: bool


def startup(bench: Bench) -> str:
    """A report. The interpreter writes the times as it goes, which slows it by about a third: read them as shares."""
    runs = [_one_start(bench) for _ in range(bench.times(5))]
    fastest = min(runs, key=lambda modules: sum(module.own for module in modules))
    total = sum(module.own for module in fastest)
    hello = sum(module.own for module in fastest if module.before_hello)
    lines = [
        "## Start-up",
        "",
        f"{len(fastest)} modules, {total:.0f} ms in all, {hello:.0f} ms of them before `initialize` is answered "
        f"(the fastest of {len(runs)} starts, times of `-X importtime`).",
        "",
        "| imported | modules | ms | share |",
        "| --- | --- | --- | --- |",
    ]
    for group, count, own in _groups(fastest)[:16]:
        lines.append(f"| {group} | {count} | {own:.1f} | {own / total:.0%} |")
    lines += ["", "The dearest modules:", "", "| module | ms by itself |", "| --- | --- |"]
    lines += [f"| {module.name} | {module.own:.1f} |" for module in sorted(fastest, key=lambda module: -module.own)[:15]]
    lines += ["", *_milestones(bench)]
    return "\n".join(lines)


def _one_start(bench: Bench) -> list[Imported]:
    command = with_python(bench.spec.command, "-X", "importtime")
    folder = bench.folder()
    slow = Bench(replace(bench.spec, command=command), bench.model, folder, bench.scale)
    with slow.fresh(folder) as client:
        client.initialize()
        client.begin_session()
    return list(_read((folder / "stderr").read_text().splitlines()))


def _read(lines: Iterable[str]) -> Iterable[Imported]:
    before_hello = True
    for line in lines:
        fields = line.removeprefix("import time:").split("|")
        if not line.startswith("import time:") or len(fields) != 3 or not fields[0].strip().isdigit():
            continue
        name = fields[2].strip()
        depth = (len(fields[2]) - len(fields[2].lstrip()) - 1) // 2
        before_hello = before_hello and not name.startswith(("asyncio", "concurrent", "understudy.servers.mcp.stdio"))
        yield Imported(name, int(fields[0]) / 1000, depth, before_hello)


def _groups(modules: list[Imported]) -> list[tuple[str, int, float]]:
    """Ours by layer, others by package; what asyncio pulls in counts by its own name."""
    counts: dict[str, tuple[int, float]] = {}
    for module in modules:
        parts = module.name.split(".")
        group = ".".join(parts[:2]) if parts[0] == "understudy" else parts[0]
        count, own = counts.get(group, (0, 0.0))
        counts[group] = (count + 1, own + module.own)
    return sorted(((group, count, own) for group, (count, own) in counts.items()), key=lambda entry: -entry[2])


def _milestones(bench: Bench) -> list[str]:
    """Without the import times: when a client has what it waits for."""
    hello: list[float] = []
    first: list[float] = []
    for _ in range(bench.times(10)):
        with bench.fresh() as client:
            hello.append((client.initialize().at - client.spawned_at) / 1e6)
            first.append((client.turn(client.open("say")).at - client.spawned_at) / 1e6)
    return [
        f"`initialize` is answered {min(hello):.0f} ms after the spawn (median {median(hello):.0f}), "
        f"the first turn is done after {min(first):.0f} ms (median {median(first):.0f})."
    ]
