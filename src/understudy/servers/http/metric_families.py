"""Counters, gauges and histograms, and the text format in which Prometheus reads them.

A family has a bounded number of label sets: what comes after that is counted under `other`, so that nobody can fill the memory of
the server, or of whoever reads it, with names of their own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
MOST_LABEL_SETS = 100
OTHER = "other"

Labels = tuple[str, ...]


class MetricFamily:
    """`names` are those of its labels."""

    kind = "untyped"

    def __init__(self, name: str, about: str, names: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.names = tuple(names)

    def text(self) -> Iterator[str]:
        yield f"# HELP {self.name} {_escape_help(self.about)}\n"
        yield f"# TYPE {self.name} {self.kind}\n"
        yield from self.samples()

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def line(self, labels: Labels, value: float, suffix: str = "", more: str = "") -> str:
        pairs = [f'{name}="{_escape(label)}"' for name, label in zip(self.names, labels, strict=True)]
        inside = ",".join([*pairs, *([more] if more else [])])
        return f"{self.name}{suffix}{{{inside}}} {_number(value)}\n" if inside else f"{self.name}{suffix} {_number(value)}\n"


class Counter(MetricFamily):
    kind = "counter"

    def __init__(self, name: str, about: str, names: Sequence[str] = ()) -> None:
        super().__init__(name, about, names)
        self._values: dict[Labels, float] = {} if names else {(): 0.0}

    def add(self, *labels: str, by: float = 1) -> None:
        values = self._values
        known = labels if labels in values else _bounded(labels, values)
        values[known] = values.get(known, 0) + by

    def samples(self) -> Iterator[str]:
        for labels, value in self._values.items():
            yield self.line(labels, value)


class Gauge(MetricFamily):
    """Its value is set when somebody asks for it."""

    kind = "gauge"

    def __init__(self, name: str, about: str) -> None:
        super().__init__(name, about)
        self.value: float | None = None  # None: not known, and left out

    def samples(self) -> Iterator[str]:
        if self.value is not None:
            yield self.line((), self.value)


class SetCounter(Gauge):
    """One that somebody else counts."""

    kind = "counter"


class _Spread:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Histogram(MetricFamily):
    kind = "histogram"

    def __init__(self, name: str, about: str, buckets: Sequence[float], names: Sequence[str] = ()) -> None:
        super().__init__(name, about, names)
        self._buckets = tuple(buckets)
        self._spreads: dict[Labels, _Spread] = {} if names else {(): _Spread(len(buckets))}

    def observe(self, value: float, *labels: str) -> None:
        known = _bounded(labels, self._spreads)
        spread = self._spreads.get(known)
        if spread is None:
            spread = self._spreads[known] = _Spread(len(self._buckets))
        spread.counts[bisect_left(self._buckets, value)] += 1
        spread.total += value

    def samples(self) -> Iterator[str]:
        for labels, spread in self._spreads.items():
            below = 0
            for bound, count in zip((*self._buckets, float("inf")), spread.counts, strict=True):
                below += count
                yield self.line(labels, below, "_bucket", f'le="{_number(bound)}"')
            yield self.line(labels, spread.total, "_sum")
            yield self.line(labels, below, "_count")


def page(families: Iterable[MetricFamily]) -> bytes:
    return "".join(text for family in families for text in family.text()).encode()


def _bounded(labels: Labels, known: "dict[Labels, float] | dict[Labels, _Spread]") -> Labels:
    return labels if labels in known or len(known) < MOST_LABEL_SETS else (OTHER,) * len(labels)


def _escape(label: str) -> str:
    """Text that came from outside may have halves of characters, which have no UTF-8."""
    plain = label.encode(errors="replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
