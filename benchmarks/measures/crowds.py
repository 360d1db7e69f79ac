"""Many sessions at once on one server."""

import time
from dataclasses import dataclass, field

from benchmarks import processes
from benchmarks.bench import Bench, Samples
from benchmarks.client import BenchError, Client
from benchmarks.figures import quantile

LOST_SECONDS = 20.0  # an answer later than that does not come
SETTLE_SECONDS = 1.0
ROUNDS_SECONDS = 8.0  # a slow server is not asked for another round after that


@dataclass
class Tally:
    latencies: list[float] = field(default_factory=list[float])  # milliseconds
    seconds: float = 0.0
    lost: int = 0

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds if self.seconds else 0.0


def open_sessions(client: Client, count: int, at_once: int | None = None) -> tuple[list[str], float]:
    """Sessions of one turn each, and the seconds until the last was answered."""
    started = time.monotonic_ns()
    sessions: list[str] = []
    ended = started
    width = at_once or count
    for done in range(0, count, width):
        requests = [client.open("say") for _ in range(min(width, count - done))]
        for request in requests:
            answer = client.turn(request, 120)
            ended = max(ended, answer.at)
            sessions.append(client.session_of(request, answer))
    return sessions, (ended - started) / 1e9


def reply_in_turn(client: Client, sessions: list[str], total: int, seconds: float, directive: str = "say") -> Tally:
    """Each session sends its next message as soon as it has its answer, until `total` or `seconds` is reached."""
    tally = Tally()
    sent: dict[int, tuple[str, int]] = {}
    left = total
    started = time.monotonic_ns()
    ended = started
    client.answered()

    def send(session: str) -> None:
        nonlocal left
        if left > 0 and (time.monotonic_ns() - started) / 1e9 < seconds:
            left -= 1
            at = time.monotonic_ns()
            sent[client.reply(session, directive)] = (session, at)

    for session in sessions:
        send(session)
    while sent:
        client.pump(client.has_answers, 1.0)
        for request, answer in client.answered().items():
            if request not in sent:
                continue
            session, at = sent.pop(request)
            if b"done" not in answer.line:
                raise BenchError(f"{client.spec.name}: a reply failed: {answer.line[:300]!r}")
            tally.latencies.append((answer.at - at) / 1e6)
            ended = max(ended, answer.at)
            send(session)
        overdue = time.monotonic_ns() - int(LOST_SECONDS * 1e9)
        for request in [request for request, (_, at) in sent.items() if at < overdue]:
            session, _ = sent.pop(request)
            tally.lost += 1
            send(session)
    tally.seconds = (ended - started) / 1e9
    return tally


def crowd_of_50(bench: Bench) -> Samples:
    with bench.fresh() as client:
        client.initialize()
        client.begin_session()  # the first one pays for what is set up once
        sessions, seconds = open_sessions(client, 50)
        tally = reply_in_turn(client, sessions, bench.times(3000), 6.0)
    return {"opens": [50 / seconds], "replies": [tally.per_second]}


def crowd_of_200(bench: Bench) -> Samples:
    with bench.fresh() as client:
        client.initialize()
        few, _ = open_sessions(client, 20, at_once=10)
        before = _settled(client)
        more, _ = open_sessions(client, 180, at_once=20)
        each = (_settled(client) - before) / 180 * 1000
        latencies: list[float] = []
        enough = time.monotonic() + ROUNDS_SECONDS
        for _ in range(bench.times(3)):
            latencies += reply_in_turn(client, few + more, 200, 60.0).latencies  # all 200 at the same moment
            if time.monotonic() > enough:
                break
    return {"session_memory": [each], "crowd_p95": [quantile(latencies, 0.95)]}


def _settled(client: Client) -> float:
    client.pump(lambda: False, SETTLE_SECONDS)
    return processes.memory(client.pid).held


def instant_replies(bench: Bench) -> Samples:
    """Whether any of many replies goes without an answer. Slow servers get as many as they manage in half a minute."""
    with bench.fresh() as client:
        client.initialize()
        sessions, _ = open_sessions(client, 50, at_once=10)
        tally = reply_in_turn(client, sessions, bench.times(10_000), 30.0)
    return {"lost": [tally.lost], "lost_of": [len(tally.latencies) + tally.lost]}
