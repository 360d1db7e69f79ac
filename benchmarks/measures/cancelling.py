"""From `notifications/cancelled` to the answer of the cancelled call."""

import time

from benchmarks.bench import Bench, Samples
from benchmarks.client import BenchError, Client

SIGN_SECONDS = 10.0
UNDER_WAY_SECONDS = 0.3  # a command that is not seen to print is given so long to begin


def cancelling(bench: Bench) -> Samples:
    client = bench.warm()
    session = client.begin_session()
    return {
        "cancel_model": [_cancelled(client, session, "hang", b"_delta", b"_delta") for _ in range(bench.times(15))],
        "cancel_shell": [
            _cancelled(client, session, f"run:{bench.spec.tools[0]}:sleep", b"exec_command_begin", b"exec_command_output_delta")
            for _ in range(bench.times(15))
        ],
    }


def _cancelled(client: Client, session: str, directive: str, begun: bytes, working: bytes) -> float:
    """Milliseconds. Where a cancelled call gets no answer, the event that its turn is over stands for it."""
    signs = {begun: 0, working: 0, b'"turn_aborted"': 0}

    def see(lines: list[bytes], at: int) -> None:
        for line in lines:
            for sign in signs:
                if not signs[sign] and sign in line[:600]:
                    signs[sign] = at

    client.watch = see
    try:
        request = client.reply(session, directive)
        if not client.pump(lambda: bool(signs[begun]) or client.has_answer(request), SIGN_SECONDS) or client.has_answer(request):
            raise BenchError(f"{client.spec.name}: the turn to be cancelled did not get under way ({directive})")
        client.pump(lambda: bool(signs[working]), UNDER_WAY_SECONDS)
        started = time.monotonic_ns()
        client.cancel(request)
        if client.spec.answers_cancelled:
            return (client.wait(request).at - started) / 1e6
        if not client.pump(lambda: bool(signs[b'"turn_aborted"']), SIGN_SECONDS):
            raise BenchError(f"{client.spec.name}: the cancelled turn did not end ({directive})")
        return (signs[b'"turn_aborted"'] - started) / 1e6
    finally:
        client.watch = None
