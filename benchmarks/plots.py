"""From saved samples to the pictures and the table of docs/performance.md."""

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.metrics import METRICS, Metric
from benchmarks.model.process import REPOSITORY
from benchmarks.report import OURS, paired_ratio, table
from benchmarks.run import Results
from benchmarks.svg import Bar, line_chart, ratio_chart

PAGE = REPOSITORY / "docs" / "performance.md"
PICTURES = REPOSITORY / "docs" / "performance"
MORE_IS_BETTER = frozenset(metric.key for metric in METRICS if metric.unit == "/s")


def draw(compared: Path | None, growth: Path | None) -> list[Path]:
    """Write the pictures, and put the tables into the page. The files that changed."""
    written: list[Path] = []
    PICTURES.mkdir(parents=True, exist_ok=True)
    if compared is not None:
        document = json.loads(compared.read_text())
        results = Results(_servers(document), document["samples"], document["failures"])
        written.append(_write(PICTURES / "compare.svg", _comparison(results)))
        picture = "![understudy against its predecessors](performance/compare.svg)"
        written.append(_insert("comparison", f"{_where(document)}\n\n{table(results)}\n\n{picture}"))
    if growth is not None:
        document = json.loads(growth.read_text())
        for curve in document["curves"]:
            lines = {name: {float(x): value for x, value in points.items()} for name, points in curve["lines"].items()}
            picture = line_chart(curve["title"].replace("`", ""), curve["x"], curve["unit"], lines)
            written.append(_write(PICTURES / f"{curve['name'].replace('_', '-')}.svg", picture))
        written.append(_insert("growth", f"{_where(document)}\n\n" + "\n\n".join(_section(curve) for curve in document["curves"])))
    return written


def _servers(document: dict[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    for by_server in document["samples"].values():
        found.update(dict.fromkeys(by_server))
    return [name for name in found if name != OURS] + [OURS]


def _where(document: dict[str, Any]) -> str:
    before, after, ceiling = document["before"], document["after"], document["model_ceiling"]
    return (
        f"{before['date'][:10]}, {before['system']}, {before['cores']} cores, Python {before['python']}; load "
        f"{before['load'][0]:.2f} before, {after['load'][0]:.2f} after. The model alone: {ceiling['answers_per_second']:,.0f} "
        f"answers/s, {ceiling['streamed_per_second']:,.0f} streamed deltas/s."
    )


def _comparison(results: Results) -> str:
    peers = [name for name in results.servers if name != OURS]
    bars = [_bar(results, metric, peers) for metric in METRICS if metric.targets and not metric.total]
    return ratio_chart("understudy against its predecessors (tick: what was aimed at)", peers, [bar for bar in bars if bar])


def _bar(results: Results, metric: Metric, peers: list[str]) -> Bar | None:
    ratios = [paired_ratio(results, metric, OURS, peer) for peer in peers]
    if all(math.isnan(ratio) for ratio in ratios):
        return None
    bounds = {target.peer: target.bound for target in metric.targets}
    known = tuple(None if math.isnan(ratio) else ratio for ratio in ratios)
    return Bar(metric.title, known, tuple(bounds.get(peer) for peer in peers), metric.key in MORE_IS_BETTER)


def _section(curve: dict[str, Any]) -> str:
    name = curve["name"].replace("_", "-")
    notes = "".join(f"\n\n{note}" for note in curve["notes"])
    return f"![{curve['title'].replace('`', '')}](performance/{name}.svg){notes}"


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _insert(name: str, text: str) -> Path:
    """Between the marks for it in the page."""
    page = PAGE.read_text()
    start, end = f"<!-- {name}: made by `python -m benchmarks plots` -->", f"<!-- end of {name} -->"
    head, found, rest = page.partition(start)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise RuntimeError(f"{PAGE} has no place for {name}")
    PAGE.write_text(f"{head}{start}\n\n{text}\n\n{end}{tail}")
    return PAGE
