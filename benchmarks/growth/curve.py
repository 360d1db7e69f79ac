"""A curve: what was varied, and what it cost at each point."""

from dataclasses import dataclass, field


@dataclass
class Curve:
    name: str
    title: str
    x_title: str
    unit: str
    points: dict[str, dict[float, float]] = field(default_factory=dict[str, dict[float, float]])  # by line: x -> value
    notes: list[str] = field(default_factory=list[str])  # what holds, in words

    def add(self, line: str, x: float, value: float) -> None:
        self.points.setdefault(line, {})[x] = value

    def ratio(self, line: str) -> float:
        """The last point over the first."""
        values = list(self.points[line].values())
        return values[-1] / values[0] if values[0] else float("nan")

    def text(self) -> str:
        columns = sorted({x for line in self.points.values() for x in line})
        rows = [[self.x_title, *(f"{x:g}" for x in columns), "last / first"]]
        for name, line in self.points.items():
            cells = [
                f"{line[x]:,.3g}" if x in line and abs(line[x]) < 1000 else f"{line[x]:,.0f}" if x in line else "-" for x in columns
            ]
            rows.append([f"{name} ({self.unit})" if self.unit else name, *cells, f"{self.ratio(name):.2f} x"])
        rows.insert(1, ["---"] * len(rows[0]))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
        return "\n".join([f"### {self.title}", "", *lines, *(f"\n{note}" for note in self.notes)])
