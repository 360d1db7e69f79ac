"""The sink of a pipe: order, one write a step, and viewers that wait while the client has fallen behind."""

from __future__ import annotations

import asyncio

from understudy.servers.pipes import CONGESTED_BYTES, OVERFULL_BYTES, PipeSink
from understudy.testing.waiting import WAIT_SECONDS


class Pipe(asyncio.WriteTransport):
    """Keeps what is written; how much of it counts as not taken yet is for the test to say."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.buffered = 0
        self.limits: tuple[int | None, int | None] = (None, None)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return self.buffered


def make_sink() -> tuple[PipeSink, Pipe]:
    sink, pipe = PipeSink(asyncio.get_running_loop()), Pipe()
    sink.attach(pipe)
    return sink, pipe


async def steps(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_sent_in_one_step_is_written_at_its_end_in_order_whatever_it_belongs_to() -> None:
    sink, pipe = make_sink()
    for number, related_to in enumerate((7, "7", None)):
        sink.send(b"%d\n" % number, related_to)
    assert pipe.written == []
    await steps()
    sink.send(b"3\n", None)
    await steps()
    assert pipe.written == [b"0\n1\n2\n", b"3\n"]


async def test_what_is_sent_before_there_is_a_pipe_is_written_once_there_is_one() -> None:
    sink, pipe = PipeSink(asyncio.get_running_loop()), Pipe()
    sink.send(b"early\n", 1)
    await steps()
    sink.attach(pipe)
    assert pipe.written == [b"early\n"]


async def test_callbacks_wait_while_the_pipe_is_full_and_come_one_in_a_step() -> None:
    sink, _ = make_sink()
    called: list[int] = []
    sink.pause()
    assert sink.congested
    for number in range(3):
        sink.drained(lambda number=number: called.append(number))
    await steps()
    assert called == []
    sink.resume()
    assert not sink.congested
    assert called == [], "not within the call that says there is room"
    seen = [len(called)]
    while len(called) < 3:
        await asyncio.sleep(0)
        seen.append(len(called))
    assert called == [0, 1, 2]
    assert seen == [0, 1, 2, 3]


async def test_a_callback_that_fills_the_pipe_again_lets_the_next_one_wait() -> None:
    sink, _ = make_sink()
    called: list[str] = []

    def fill() -> None:
        called.append("fill")
        sink.pause()

    sink.drained(fill)
    sink.drained(lambda: called.append("next"))
    await steps(5)
    assert called == ["fill"]
    sink.resume()
    await steps(5)
    assert called == ["fill", "next"]


async def test_more_than_a_client_leaves_waiting_is_congestion_until_it_is_written() -> None:
    sink, _ = make_sink()
    sink.send(bytes(CONGESTED_BYTES), None)
    assert not sink.congested
    sink.send(b"\n", None)
    assert sink.congested
    await steps()
    assert not sink.congested


async def test_what_waits_here_and_in_the_pipe_counts_together_when_it_is_overfull() -> None:
    sink, pipe = make_sink()
    pipe.buffered = OVERFULL_BYTES - 1
    assert not sink.overfull
    sink.send(b"ab", None)
    assert sink.overfull


async def test_a_closed_sink_drops_what_is_sent_and_calls_nobody_back() -> None:
    sink, pipe = make_sink()
    called: list[int] = []
    sink.send(b"lost\n", None)
    sink.pause()
    sink.drained(lambda: called.append(1))
    sink.close()
    sink.send(b"late\n", None)
    sink.resume()
    await steps()
    assert sink.closed
    assert (pipe.written, called) == ([], [])


async def test_last_words_are_waited_for_until_the_client_has_taken_them_or_the_time_is_over() -> None:
    sink, pipe = make_sink()
    await sink.taken(seconds=30)  # nothing is left: no waiting at all
    pipe.buffered = 5
    await sink.taken(seconds=0.01)
    assert pipe.limits == (0, 0), "from here on room means that all is taken"
    waiting = asyncio.create_task(sink.taken(seconds=30))
    await steps()
    assert not waiting.done()
    sink.resume()
    await asyncio.wait_for(waiting, WAIT_SECONDS)
