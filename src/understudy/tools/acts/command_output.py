"""What a command printed: shown live, kept in part, and finally given to people and to the model."""

from understudy.errors import SandboxError
from understudy.places.masks import MaskWatch
from understudy.protocol.choices import OutputStream
from understudy.protocol.records import CommandEnded, OutputDelta
from understudy.sandbox.denial import hint, likely_denied, network_hint, remark
from understudy.sandbox.spec import CommandResult, Containment
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ToolHost
from understudy.tools.output import DELTA_BYTES, EVENT_BYTES, LIVE_BYTES, ForModel, HeadTail, model_text

LIVE_MARK = b"\n[... more output follows; it is not shown live ...]\n"


class Capture:
    """Passes output on as it comes, and keeps the parts that people and the model get at the end."""

    def __init__(self, call_id: str, host: ToolHost, watch: MaskWatch | None) -> None:
        """`watch`: masked paths that may become visible to the command."""
        self._watch = watch
        self.stdout, self.stderr = HeadTail(EVENT_BYTES), HeadTail(EVENT_BYTES)
        self.merged = ForModel(host.settings.output_tokens)
        self._call_id = call_id
        self._host = host
        self._live = 0

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def check(self, exposed: str | None = None) -> None:
        """`exposed`: see `CommandResult`. Raises `SandboxError` if the command may have seen a masked file."""
        if self._watch is None:
            return
        if (path := exposed if exposed is not None and self._watch.has(exposed) else self._watch.moved()) is not None:
            raise SandboxError(f"{path} is masked and was replaced while the command ran: what it printed since is withheld")

    def feed(self, stream: OutputStream, chunk: bytes) -> None:
        self.check()
        (self.stdout if stream == "stdout" else self.stderr).feed(chunk)
        self.merged.feed(chunk)
        if self._live > LIVE_BYTES:
            return
        for start in range(0, len(chunk), DELTA_BYTES):
            piece = chunk[start : start + DELTA_BYTES]
            self._live += len(piece)
            if self._live > LIVE_BYTES:
                self._host.emit(OutputDelta(self._call_id, stream, LIVE_MARK))
                return
            self._host.emit(OutputDelta(self._call_id, stream, piece))


class Finished:
    def __init__(
        self,
        result: CommandResult,
        capture: Capture,
        seconds: float | None,
        containment: Containment | None,
        *,
        may_ask: bool,
        network_user: str | None = None,
    ) -> None:
        """`network_user`: which part of the command needs the network, judging by its words."""
        self._result = result
        self._may_ask = may_ask
        self._capture = capture
        cap = containment.limits.seconds if containment is not None else None
        self._limit = min((limit for limit in (seconds, cap) if limit), default=0.0)
        self._containment = containment
        self._printed = f"{capture.stdout.text()}{capture.stderr.text()}"
        self.exit_code = result.exit_code
        self.denied = likely_denied(result, self._printed, containment)
        self.lacked_network = network_hint(result, self._printed, containment, user=network_user)

    def record(self, call_id: str) -> CommandEnded:
        result = self._result
        failed_to_start = result.spawn_error or result.setup_error
        if failed_to_start is not None:
            return CommandEnded(call_id, "", failed_to_start, -1 if result.spawn_error else result.exit_code, result.duration)
        return CommandEnded(
            call_id,
            self._capture.stdout.text(),
            self._stderr(),
            result.exit_code,
            result.duration,
            timed_out=result.timed_out,
            denied=self.denied,
            ended_by=result.ended_because or "",
        )

    def _stderr(self) -> str:
        text, told = self._capture.stderr.text(), remark(self._result)
        return text if told is None else with_line(text, told)

    def failure(self) -> str:
        stdout, stderr = self._capture.stdout.text(), self._capture.stderr.text()
        return (
            f"Execution failed: sandbox denied exec error, exit code: {self._result.exit_code}, stdout: {stdout}, stderr: {stderr}"
        )

    def output(self) -> ToolOutput:
        if (reason := self.why_unstarted()) is not None:
            return ToolOutput(reason, success=False)
        result, text = self._result, self._capture.merged.text()
        for line in self.remarks():
            text = with_line(text, line)
        return ToolOutput(model_text(text, result.exit_code, result.duration), success=result.exit_code == 0)

    def why_unstarted(self) -> str | None:
        """What the model is told if nothing was run."""
        result = self._result
        if result.spawn_error is not None:
            return f"execution error: {result.spawn_error}"
        if result.setup_error is not None:
            return f"execution error: the command was not run: {result.setup_error}"
        return None

    def remarks(self) -> list[str]:
        """Remarks to add to what it printed."""
        result = self._result
        late = f"command timed out after {round(self._limit * 1000)} milliseconds" if result.timed_out else None
        refused = hint(result, self._printed, self._containment, may_ask=self._may_ask)
        return [line for line in (late, remark(result), self.lacked_network, refused) if line is not None]


def with_line(text: str, line: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"
