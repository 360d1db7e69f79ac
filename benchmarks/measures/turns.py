"""Single turns on a warm server: what a user waits beyond the model's own time."""

import math
import time
from collections.abc import Callable
from itertools import count

from benchmarks.bench import Bench, Samples
from benchmarks.client import Client, LostAnswer
from benchmarks.figures import median

PATIENCE_SECONDS = 5.0  # a short turn that takes longer is lost
ATTEMPTS = 5
FIRST_COMMAND = 1001  # the number that a conversation's first command with a number gets


def timed_reply(client: Client, session: str, directive: str, expect: bytes = b"done") -> float:
    """Milliseconds from sending the call to reading its answer."""
    started = time.monotonic_ns()
    return (client.turn(client.reply(session, directive), PATIENCE_SECONDS, expect).at - started) / 1e6


def timed_open(client: Client) -> float:
    started = time.monotonic_ns()
    return (client.turn(client.open("say"), PATIENCE_SECONDS).at - started) / 1e6


class _Replies:
    """Turns of one session. One that is lost is counted, and the next go to a new session."""

    def __init__(self, client: Client) -> None:
        self.lost = 0
        self._client = client
        self._session = client.begin_session()

    def take(self, times: int, directive: Callable[[], str]) -> list[float]:
        taken: list[float] = []
        while len(taken) < times:
            try:
                taken.append(timed_reply(self._client, self._session, directive()))
            except LostAnswer:
                self.lost += 1
                if self.lost >= ATTEMPTS:
                    raise
                self._session = self._client.begin_session()
        return taken


def _patch() -> str:
    """Each adds a file of its own."""
    return f"patch:{time.monotonic_ns()}"


def _with(tool: str) -> Callable[[], str]:
    if tool in ("shell", "exec_command"):
        return lambda: f"run:{tool}:true"
    numbers = count()
    return lambda: f"use:{tool}:{next(numbers)}"


def _typing(client: Client, times: int) -> list[float]:
    """A line typed at a program that ends of it. The turn that begins the program is not counted."""
    session = client.begin_session()
    taken: list[float] = []
    for number in range(FIRST_COMMAND, FIRST_COMMAND + times):
        timed_reply(client, session, "use:type_at:0")
        taken.append(timed_reply(client, session, f"use:write_stdin:{number}"))
    return taken


def turns(bench: Bench) -> Samples:
    client = bench.warm()
    replies = _Replies(client)
    replies.take(1, lambda: f"run:{bench.spec.tools[0]}:true")  # the helper that runs commands is up from here on
    return {
        "new_session": [timed_open(client) for _ in range(bench.times(10))],
        "reply": replies.take(bench.times(30), lambda: "say"),
        **{tool: replies.take(bench.times(10), _with(tool)) for tool in bench.spec.tools if tool != "write_stdin"},
        **({"write_stdin": _typing(client, bench.times(5))} if "write_stdin" in bench.spec.tools else {}),
        "patch": replies.take(bench.times(10), _patch),
        "lost_single": [replies.lost],
    }


def history(bench: Bench) -> Samples:
    taken = session_of(bench.warm(), bench.times(200) + 5)
    return {"history": [median(known(taken[-11:])) / median(known(taken[5:15]))]}


def session_of(client: Client, turns: int) -> list[float]:
    """How long each turn of one session takes; NaN for one that was lost."""
    session = client.begin_session()
    taken: list[float] = []
    lost = 0
    while len(taken) < turns:
        try:
            taken.append(timed_reply(client, session, "words:200", b"xxx"))
        except LostAnswer:
            lost += 1
            if lost >= ATTEMPTS:
                raise
            taken.append(math.nan)
    return taken


def known(samples: list[float]) -> list[float]:
    return [sample for sample in samples if not math.isnan(sample)]
