"""`understudy exec`: one task from the command line. Handles its arguments, input, signals and exit code."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.cli.exec.options import ExecRequest, help_text, parse
from understudy.cli.streams import prepare_streams, silence, write_interrupted
from understudy.errors import AgentError, BadRequest

if TYPE_CHECKING:
    from understudy.places.places import Places

FAILED = 1
INTERRUPTED = 130  # as shells report Ctrl-C
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(words: Sequence[str], early: Sequence[int] = ()) -> int:
    """Returns the exit code: 0, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C. SIGTERM and SIGHUP end the process by that
    signal.

    `early`: interrupts that main.py has only noted, because interrupting an import would leave half a module behind.
    """
    prepare_streams()
    request = parse(words)
    try:
        if early:
            return _interrupted(request)
        if request.help or request.version:
            return _tell(request)
        return _run(request, early)
    except AgentError as error:
        return _complain(str(error))
    except BrokenPipeError:
        return _complain("nobody reads standard output any more, so the turn was ended")
    except KeyboardInterrupt:  # before the event loop handles it
        return _interrupted(request)
    except (OSError, UnicodeEncodeError) as error:
        from understudy.cli.ending import explain

        return _complain(explain(error, words))


def _interrupted(request: ExecRequest) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if request.json:
        write_interrupted()
    return INTERRUPTED


@contextmanager
def _interruptible(early: Sequence[int]) -> Generator[None]:
    """Lets a signal end the reading of input, which may block for ever."""
    noting = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if early:
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, noting)


def _tell(request: ExecRequest) -> int:
    from understudy.cli.parsing import version_text

    sys.stdout.write(help_text(request.action) if request.help else f"{version_text('exec')}\n")
    sys.stdout.flush()
    return 0


def _complain(text: str) -> int:
    from understudy.text import strip_terminal_escapes

    try:
        sys.stderr.write(f"understudy: {strip_terminal_escapes(text)}\n")
        sys.stderr.flush()
    except OSError:
        silence(2)  # nobody reads it
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # nobody reads it, or the pipe is closed on our side, too
        silence(1)
    return FAILED


def _run(request: ExecRequest, early: Sequence[int]) -> int:
    from understudy.cli.exec.input import ExecTask, check_until, images_or_words, read_budget, read_prompt, read_schema

    if not (request.begins or request.last) and request.thread is None:  # before we wait for a prompt
        text = f"`exec {request.action}` needs the id of a conversation, or --last for the newest one of this folder"
        raise BadRequest(text)

    def find_places() -> "Places":
        from understudy.cli.exec.settings import places_from  # few tasks have files

        return places_from(request)

    with _interruptible(early):
        check_until(request)
        schema, budget = read_schema(request, find_places), read_budget(request)
        images = images_or_words(request.images, find_places) if request.images else []
        prompt = "" if request.action == "review" and request.prompt is None else read_prompt(request)
    import asyncio

    from understudy.cli.exec.run import Signals, run_task
    from understudy.servers.process.process import call_on_signals, log_to_stderr, new_loop

    gc.freeze()
    gc.enable()
    log_to_stderr("error")
    signals = Signals()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        call_on_signals(runner.get_loop(), _ENDING, lambda number: signals.receive(signal.Signals(number)))
        for number in early[:1]:
            signals.receive(number)
        code = runner.run(run_task(ExecTask(request, prompt, images, schema, budget), signals))
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # we are ending already
    if signals.first not in (None, signal.SIGINT):
        signal.signal(signals.first, signal.SIG_DFL)
        os.kill(os.getpid(), signals.first)  # so that the sender sees that the signal worked
    return INTERRUPTED if signals.first is not None and code == FAILED else code
