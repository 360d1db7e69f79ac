"""`understudy chat`: an interactive session in the terminal. Reads the options, chooses the kind of terminal, and ends the chat.

Also shows log messages in the chat, instead of across the screen.
"""

import asyncio
import logging
import os
import signal
import termios
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from rich.text import Text

from understudy import __version__
from understudy.cli.chat.chat import Chat
from understudy.cli.exec.input import read_budget, read_images
from understudy.cli.exec.options import ExecRequest
from understudy.cli.exec.run import find_conversation
from understudy.cli.settings import read_overrides
from understudy.cli.tell.terminal import one_line
from understudy.engine.engine import Engine
from understudy.errors import AgentError, BadRequest, how_to_add
from understudy.policy.secrets import names_a_secret
from understudy.protocol.callers import LOCAL
from understudy.protocol.records import Budget, Overrides
from understudy.servers.process.process import hide_memory, new_loop

if TYPE_CHECKING:
    from understudy.cli.chat.plain import PlainTerminal
    from understudy.cli.chat.screen import Screen
    from understudy.engine.engine import Engine
    from understudy.engine.handle import Handle


class ToldInChat(logging.Handler):
    def __init__(self, chat: Chat) -> None:
        super().__init__(logging.WARNING)
        self._chat = chat
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """May be called from any thread."""
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        try:
            self._loop.call_soon_threadsafe(self._tell, text)
        except RuntimeError:
            return  # the chat is over

    def _tell(self, text: str) -> None:
        if self._chat.attached:
            self._chat.showing.say(text)


NO_TERMINAL = (
    "`understudy chat` needs a terminal, and {} is none. For scripts there is `understudy exec`; "
    "`understudy resume ID PROMPT` goes on with a conversation"
)
NO_LIBRARY = f"`understudy chat` needs prompt_toolkit, which is not installed: {how_to_add('chat')}"


def run(options: Namespace) -> int:
    for descriptor, name in ((0, "standard input"), (1, "standard output")):
        if not os.isatty(descriptor):
            raise BadRequest(NO_TERMINAL.format(name))
    overrides = Overrides(
        model=options.model,
        profile=options.profile,
        cwd=None if options.cwd is None else os.path.abspath(options.cwd),
        approval_policy=options.approval_policy,
        sandbox=options.sandbox,
        config=dict(read_overrides(options)) or None,
        include_plan_tool=True,
    )
    budget = read_budget(ExecRequest(budget=options.budget))
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    if not dumb:
        try:
            import_module("prompt_toolkit")
        except ImportError:
            raise BadRequest(NO_LIBRARY) from None
    with nullcontext() if dumb else typed_ahead(0), asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_chat(options, overrides, budget, dumb=dumb))


@contextmanager
def typed_ahead(descriptor: int) -> Generator[None]:
    """Keep input that is typed before there is an input line: it is not echoed, and is read later."""
    before = termios.tcgetattr(descriptor)
    quiet = list(before)
    quiet[0] &= ~termios.ICRNL
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def _chat(options: Namespace, overrides: Overrides, budget: Budget | None, *, dumb: bool) -> int:
    engine = Engine(given_by="`-c`")
    try:
        handle = await _find(options, overrides, engine)
        from understudy.servers.given_images import places_for

        images = read_images(options.images, lambda: places_for(handle))
        face = await _open_terminal(engine, handle, dumb=dumb)
        chat = Chat(engine, face, overrides, budget)
        chat.images += images
        logging.getLogger().addHandler(ToldInChat(chat))
        signals = _listen_for_signals(chat, face)
        try:
            return await _talk(options, chat, face, handle, signals)
        finally:
            face.close()
    finally:
        await engine.close()


async def _find(options: Namespace, overrides: Overrides, engine: "Engine") -> "Handle":
    """A new conversation, or the existing one that was asked for. Raises `AgentError`."""
    if options.id is None and not options.last:
        return await engine.create(LOCAL, overrides)
    request = ExecRequest(action="resume", thread=options.id, last=options.last, cwd=options.cwd)
    handle = await engine.find(LOCAL, await find_conversation(engine, request))
    await handle.make_ready()
    return handle


async def _open_terminal(engine: "Engine", handle: "Handle", *, dumb: bool) -> "Screen | PlainTerminal":
    if dumb:
        from understudy.cli.chat.plain import PlainTerminal

        return PlainTerminal()
    from understudy.cli.chat.line import ChatHistory
    from understudy.cli.chat.screen import Screen

    config = handle.setup().config
    file = config.state_dir / "chat-history.jsonl" if config.history_persistence != "none" else None
    return Screen(ChatHistory(file, _secrets()))


def _secrets() -> list[str]:
    """Values in the environment that look secret."""
    return [value for name, value in os.environ.items() if names_a_secret(name)]


async def _talk(options: Namespace, chat: "Chat", face: "Screen | PlainTerminal", handle: "Handle", signals: list[int]) -> int:
    face.open(chat)
    cwd = handle.facts.cwd
    face.console.print(Text.assemble(("understudy", "bold"), (f" {__version__} · {one_line(cwd)}", "dim")))
    face.console.print(Text(f"conversation {handle.id}", "dim"))
    await chat.attach(handle)
    config = handle.setup().config
    for warning in config.warnings:
        chat.showing.say(f"warning: {warning}")
    for notice in config.notices:
        chat.showing.say(f"note: {notice}")
    if options.id is not None or options.last:
        _choose(chat, chat.overrides)
    hide_memory()
    await face.run()
    error = await chat.left
    chat.detach()
    if isinstance(error, AgentError):
        raise error
    if error is not None and not isinstance(error, OSError | EOFError):
        raise error
    if error is None and not signals:
        face.console.print(Text(f"To go on: understudy chat {chat.handle.id}", "dim"))
    return 128 + signals[0] if signals else 0


def _choose(chat: "Chat", given: Overrides) -> None:
    """Apply the options to an existing conversation: from the next message on, and never its folder."""
    changes = Overrides(given.model, given.profile, None, given.approval_policy, given.sandbox, given.config)
    if changes != Overrides():
        chat.choose(changes)


def _listen_for_signals(chat: "Chat", face: "Screen | PlainTerminal") -> list[int]:
    """Returns the signals that came. In a raw terminal Ctrl-C is a key; SIGINT comes from elsewhere, or from a terminal that is
    not raw."""
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        chat.leave()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGINT, face.interrupt)
    return received
