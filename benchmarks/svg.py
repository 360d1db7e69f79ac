"""Charts as SVG text, with no library: lines over a numeric axis, and bars of ratios on a logarithmic one."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#1b6ca8", "#d1603d", "#3a7d44", "#7b4b94", "#8a6d1d", "#555555")
GRID, INK = "#e3e3e3", "#333333"


class Bar(NamedTuple):
    label: str
    ratios: tuple[float | None, ...]  # one for each peer
    targets: tuple[float | None, ...]
    more_is_better: bool


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11, colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = GRID, extra: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {extra}/>'


def _page(width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return head + f'<rect width="{width}" height="{height}" fill="#ffffff"/>' + "".join(parts) + "</svg>\n"


def line_chart(title: str, x_title: str, unit: str, lines: Mapping[str, Mapping[float, float]]) -> str:
    """Values from zero up, so that what grows looks as if it grew. The horizontal axis has one step for each point."""
    width, height, left, right, top, bottom = 560, 300, 64, 16, 34, 62
    places = sorted({x for points in lines.values() for x in points})
    highest = max((value for points in lines.values() for value in points.values()), default=1.0) or 1.0
    step = _step(highest)
    ceiling = math.ceil(highest / step) * step

    def across(x: float) -> float:
        return left + (width - left - right) * (places.index(x) + 0.5) / len(places)

    def up(value: float) -> float:
        return height - bottom - (height - top - bottom) * value / ceiling

    parts = [_text(left, 20, title, size=14)]
    for number in range(round(ceiling / step) + 1):
        value = number * step
        parts += [_line(left, up(value), width - right, up(value)), _text(left - 6, up(value) + 4, f"{value:g}", anchor="end")]
    parts += [_text(across(x), height - bottom + 16, f"{x:,g}", anchor="middle") for x in places]
    parts += [
        _text((left + width - right) / 2, height - bottom + 32, x_title, anchor="middle"),
        _text(8, top - 6, unit, colour="#777777"),
    ]
    x_of_legend = float(left)
    for colour, (name, points) in zip(COLOURS * 3, lines.items(), strict=False):
        dots = [(across(x), up(value)) for x, value in sorted(points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots]
        parts += [f'<circle cx="{x_of_legend:.1f}" cy="{height - 12}" r="4" fill="{colour}"/>']
        parts += [_text(x_of_legend + 8, height - 8, name)]
        x_of_legend += 24 + 6.2 * len(name)
    return _page(width, height, parts)


def _step(highest: float) -> float:
    """A round number that divides the axis into about five."""
    rough = highest / 5
    power = 10 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)


def ratio_chart(title: str, peers: Sequence[str], bars: Sequence[Bar]) -> str:
    """Each bar runs from "the same" to our ratio; to the right is better for us. A tick marks what was aimed at."""
    row, left, right, top = 15, 280, 30, 50
    width, height = 900, top + sum(row * len(peers) + 8 for _ in bars) + 30
    reach = 1.0 + max(
        (abs(math.log10(ratio)) for bar in bars for ratio in (*bar.ratios, *bar.targets) if ratio is not None and ratio > 0),
        default=1.0,
    )
    middle = left + (width - left - right) / (reach + 1.0)

    def across(ratio: float, better: bool) -> float:
        advantage = math.log10(max(ratio, 1e-4)) * (1 if better else -1)
        return max(left, middle + advantage * (width - right - middle) / reach)

    parts = [_text(10, 22, title, size=14)]
    for index, peer in enumerate(peers):
        parts += [f'<rect x="{left + index * 190}" y="30" width="11" height="11" fill="{COLOURS[index]}"/>']
        parts += [_text(left + 16 + index * 190, 40, f"against {peer}")]
    for power in range(-1, math.ceil(reach)):
        x = across(10.0**power, better=True)
        label = "the same" if power == 0 else f"{10**power:g} x better" if power > 0 else "10 x worse"
        parts += [_line(x, top, x, height - 24, INK if power == 0 else GRID), _text(x, height - 10, label, anchor="middle")]
    y = float(top)
    for bar in bars:
        parts.append(_text(left - 8, y + row * len(peers) / 2 + 4, bar.label.replace("`", ""), anchor="end"))
        for index, (ratio, target) in enumerate(zip(bar.ratios, bar.targets, strict=True)):
            if ratio is not None and ratio > 0:
                end = across(ratio, bar.more_is_better)
                parts.append(
                    f'<rect x="{min(middle, end):.1f}" y="{y + 1:.1f}" width="{max(abs(end - middle), 1):.1f}" '
                    f'height="{row - 2}" fill="{COLOURS[index]}"/>'
                )
            if target is not None:
                x = across(target, bar.more_is_better)
                parts.append(_line(x, y - 1, x, y + row + 1, "#000000", 'stroke-width="2"'))
            y += row
        y += 8
    return _page(width, height, parts)
