"""`exec --json`: a viewer that writes the events of its turn to standard output, one per line."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from understudy.cli.exec.events import ExecEvents
from understudy.cli.exec.input import ExecTask
from understudy.cli.exec.patient_errors import PatientErrors
from understudy.cli.exec.viewer import ExecViewer
from understudy.config.model import Config
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.errors import AgentError
from understudy.protocol.records import OutputDelta, TurnEnded
from understudy.servers import pipes
from understudy.servers.pipes import PipeSink
from understudy.servers.process.process import Ending

UNWRITTEN = "events could not be written to standard output, so the turn was ended"
LEAVING = 3.0  # seconds that a reader has for the last events once we were told to end


class Output:
    """Standard output. A slow reader delays nothing else; `gone` is done once nobody reads any more."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.sink = PipeSink(loop)
        self._ending = Ending(loop)
        self.gone = loop.create_task(self._ending.wait())
        self._polled = False
        self._left: asyncio.Future[None] = loop.create_future()  # done once we no longer wait for the reader

    async def open(self) -> None:
        mode = os.fstat(1).st_mode
        self._polled = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        await pipes.open_output(self.sink, self._ending, poll_terminal=False)

    def write(self, *lines: bytes) -> None:
        for line in lines:
            self.sink.send(line, None)

    def leave_soon(self, seconds: float) -> None:
        """Wait no longer than this for a reader that stays open but reads nothing."""
        asyncio.get_running_loop().call_later(seconds, lambda: None if self._left.done() else self._left.set_result(None))

    @property
    def lost(self) -> bool:
        """Whether something could not be written, for example because the disk is full."""
        return self.gone.done() and not self.gone.cancelled() and self.gone.result() != 0

    async def close(self) -> None:
        """Wait until the reader has read everything, has gone, or has had its time."""
        self.sink.flush()
        if not self.sink.closed and self.sink.buffered:
            taken = asyncio.ensure_future(self.sink.taken(None))
            await asyncio.wait([taken, self.gone, self._left], return_when=asyncio.FIRST_COMPLETED)
            taken.cancel()
        await asyncio.sleep(0)  # by then, a failed write is known
        self.gone.cancel()
        if self._polled:
            os.set_blocking(1, True)  # the pipe may be shared with programs that run after us


class ExecJsonViewer(ExecViewer):
    nobody = "nobody can be asked: `exec --json` has no way to put a question"

    def __init__(self, handle: Handle, output: Output, events: ExecEvents, *, created: bool, hides_reasoning: bool) -> None:
        super().__init__(handle, created=created, hides_reasoning=hides_reasoning, outlet=output.sink)
        self._output = output
        self._events = events

    def show(self, live: LiveEntry) -> None:
        self._output.write(*self._events.lines(live.entry))

    def show_delta(self, live: LiveDelta) -> None:
        if type(live.delta) is OutputDelta:
            self._events.hear(live.delta)

    def interrupt(self) -> None:
        if self.exit_code.done():  # only the reader is late
            self._output.leave_soon(0.0 if self.told_to_end else LEAVING)
            self.told_to_end = True
        else:
            super().interrupt()

    def show_interrupted(self) -> None:
        self._output.write(*self._events.interrupted())

    def ended(self, ended: TurnEnded) -> None:
        super().ended(ended)
        if ended.reason == "completed" and self._events.last_message is not None:
            self.final_message = self._events.last_message

    def failed(self, error: BaseException) -> None:
        self._output.write(*self._events.failed(str(error)))
        super().failed(error)


def _lost(code: int) -> Exception:
    return AgentError(UNWRITTEN) if code else BrokenPipeError()


@asynccontextmanager
async def show_as_json(
    handle: Handle, config: Config, task: ExecTask, errors: PatientErrors | None = None
) -> AsyncGenerator[ExecJsonViewer]:
    """Use a viewer on standard output. When this returns, everything has been read, or nobody reads any more."""
    created = task.request.begins
    output = Output()
    await output.open()
    in_form = task.schema is not None
    events = ExecEvents(
        handle.id,
        str(config.cwd),
        usage=handle.facts.usage,
        warnings=config.warnings,
        in_form=in_form,
        begun=handle.under_way(),
        called=handle.not_begun(),
        questions=handle.facts.questions.values(),
        say=None if task.review is None else task.review.as_message,
    )
    viewer = ExecJsonViewer(handle, output, events, created=created, hides_reasoning=config.hide_agent_reasoning)
    output.gone.add_done_callback(lambda gone: None if gone.cancelled() else viewer.failed(_lost(gone.result())))
    if not created:
        output.write(*events.thread_started())
    try:
        yield viewer
    finally:
        if viewer.told_to_end:
            output.leave_soon(LEAVING)
        await output.close()
        if errors is not None:
            errors.drop()  # readers of events have them already
        viewer.output_lost = output.lost
