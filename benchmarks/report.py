"""From samples to a table and a JSON file."""

import json
import math
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import median, spread
from benchmarks.metrics import METRICS, Metric
from benchmarks.model.process import Ceiling
from benchmarks.run import Results

OURS = "understudy"


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
    }


def value(results: Results, metric: Metric, server: str) -> float:
    """The median over all samples, or their sum; NaN where there are none."""
    samples = [sample for repetition in results.samples.get(metric.key, {}).get(server, []) for sample in repetition or ()]
    if not samples:
        return math.nan
    return float(sum(samples)) if metric.total else median(samples)


def paired_ratio(results: Results, metric: Metric, server: str, peer: str) -> float:
    """The median of the ratios within each repetition: both sides met the same disturbances."""
    mine, theirs = (results.samples.get(metric.key, {}).get(name, []) for name in (server, peer))
    ratios = [median(a) / median(b) for a, b in zip(mine, theirs, strict=False) if a and b and median(b)]
    return median(ratios) if ratios else math.nan


def verdict(results: Results, metric: Metric) -> str:
    """Whether each target that can be judged is met."""
    words: list[str] = []
    for target in metric.targets:
        if target.peer is None:
            ours = value(results, metric, OURS)
            known = not math.isnan(ours)
            met = target.holds(ours, 0.0)
        else:
            ratio = paired_ratio(results, metric, OURS, target.peer)
            known = not math.isnan(ratio)
            met = target.holds(ratio, 1.0)
        words.append(f"{target} {'yes' if met else 'NO'}" if known else str(target))
    return "; ".join(words)


def table(results: Results) -> str:
    """In Markdown, aligned so that it reads as plain text too."""
    peers = [name for name in results.servers if name != OURS] if OURS in results.servers else []
    head = ["metric", "unit", *results.servers, *(f"{OURS} / {peer.removeprefix('codex ')}" for peer in peers), "target, met"]
    rows = [head, ["---"] * len(head)]
    for metric in METRICS:
        if metric.key not in results.samples:
            continue
        ratios = ["" if metric.total else _shown(paired_ratio(results, metric, OURS, peer)) for peer in peers]
        values = [_shown(value(results, metric, server)) for server in results.servers]
        rows.append([metric.title, metric.unit, *values, *ratios, verdict(results, metric)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows)


def _shown(number: float) -> str:
    if math.isnan(number):
        return "-"
    size = abs(number)
    if size >= 1000:
        return f"{number:,.0f}"
    return f"{number:.0f}" if size >= 100 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def save(path: Path, results: Results, before: dict[str, Any], ceiling: Ceiling) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    summary = {
        metric.key: {
            server: {"value": value(results, metric, server), "spread": _spread(results, metric, server)}
            for server in results.servers
            if server in results.samples[metric.key]
        }
        for metric in METRICS
        if metric.key in results.samples
    }
    document = {
        "before": before,
        "after": machine(),
        "model_ceiling": ceiling._asdict(),
        "summary": summary,
        "samples": results.samples,
        "failures": results.failures,
    }
    path.write_text(json.dumps(document, indent=1))


def _spread(results: Results, metric: Metric, server: str) -> float:
    samples = [sample for repetition in results.samples[metric.key][server] for sample in repetition or ()]
    return spread(samples) if len(samples) > 1 else 0.0


def print_report(results: Results, before: dict[str, Any], ceiling: Ceiling) -> None:
    load = " ".join(f"{number:.2f}" for number in before["load"])
    now = " ".join(f"{number:.2f}" for number in os.getloadavg())
    print(
        f"{before['date']}, {before['system']}, {before['cores']} cores, Python {before['python']}; load {load} before, {now} after"
    )
    print(
        f"the model alone: {ceiling.answers_per_second:,.0f} answers/s, {ceiling.streamed_per_second:,.0f} streamed deltas/s, "
        f"{ceiling.burst_per_second:,.0f} deltas/s in a burst\n"
    )
    print(table(results))
    for failure in results.failures:
        print(f"failed: {failure.partition(chr(10))[0]}", file=sys.stderr)
