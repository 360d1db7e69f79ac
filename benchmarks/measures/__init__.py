"""The measures, in the order in which they run."""

from benchmarks.bench import Measure
from benchmarks.measures.cancelling import cancelling
from benchmarks.measures.crowds import crowd_of_50, crowd_of_200, instant_replies
from benchmarks.measures.executing import executing
from benchmarks.measures.memory import idle_memory
from benchmarks.measures.output import flood
from benchmarks.measures.starting import starting
from benchmarks.measures.streaming import bursts, latency, streams
from benchmarks.measures.turns import history, turns

MEASURES: tuple[Measure, ...] = (
    Measure("starting", starting, 5),
    Measure("turns", turns, 5),
    Measure("streams", streams, 5),
    Measure("bursts", bursts, 3),
    Measure("latency", latency, 5),
    Measure("cancelling", cancelling, 5),
    Measure("memory", idle_memory, 3),
    Measure("history", history, 3),
    Measure("crowd-50", crowd_of_50, 3),
    Measure("crowd-200", crowd_of_200, 2),
    Measure("flood", flood, 2),
    Measure("instant-replies", instant_replies, 1),
    Measure("exec", executing, 5),
)
