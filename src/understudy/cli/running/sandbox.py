"""`understudy sandbox`: runs a command exactly as the agent's shell tool would, and passes on its output and exit code."""

import asyncio
import os
import signal
import sys
import uuid
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.cli.ending import INTERRUPTED
from understudy.cli.parsing import wrong_usage
from understudy.cli.running.surroundings import configured, judge, tool_settings
from understudy.config.model import Config
from understudy.policy.environment import with_markers
from understudy.policy.network_use import network_user
from understudy.protocol.choices import OutputStream
from understudy.sandbox.cell import trees
from understudy.sandbox.denial import network_hint, no_network, remark
from understudy.sandbox.runner import Sandbox
from understudy.sandbox.spec import Command, CommandResult
from understudy.store.place import prepare_folder
from understudy.text import TerminalText, make_visible
from understudy.tools.output import HeadTail

_SEARCHED_BYTES = 48 * 1024  # of the output, searched for messages about a missing network


def run(options: Namespace) -> int:
    if not options.argv:
        wrong_usage("there is no command: understudy sandbox [options] -- CMD …")
    config = _config(options)
    prepare_folder(config.state_dir)
    private_tmp = config.state_dir / "tmp" / f"sandbox-{uuid.uuid4()}"  # as for a conversation
    private_tmp.mkdir(mode=0o700, parents=True)
    printed = HeadTail(_SEARCHED_BYTES)
    try:
        command = _command(options, config, private_tmp)
        user = _tell_of_network(command)
        result = asyncio.run(_run(command, printed))
    finally:
        trees.set_aside(str(private_tmp))
        trees.remove_set_aside(str(private_tmp.parent))
    if result is None:
        return INTERRUPTED
    if result.setup_error is not None:
        print(f"understudy: the command was not run: {result.setup_error}", file=sys.stderr)
    elif result.spawn_error is not None:
        print(f"understudy: {make_visible(options.argv[0])}: {result.spawn_error}", file=sys.stderr)
    elif (told := remark(result)) is not None:
        print(f"understudy: {told}", file=sys.stderr)
    elif result.timed_out:
        print(f"understudy: ended after {result.duration:.1f} s", file=sys.stderr)
    if user is None and (hint := network_hint(result, printed.text(), command.containment, user=None)) is not None:
        print(f"understudy: {hint}", file=sys.stderr)
    return result.exit_code


def _config(options: Namespace) -> Config:
    more: list[tuple[str, Any]] = []
    if options.network is not None:
        more.append(("understudy.sandbox.network", options.network))
    config = configured(options, mode=options.mode, more=more)
    if not options.writable:
        return config
    roots = [*config.sandbox.writable_roots, *(Path(os.path.abspath(folder)) for folder in options.writable)]
    more.append(("sandbox_workspace_write.writable_roots", [str(root) for root in roots]))
    return configured(options, mode=options.mode, more=more)


def _command(options: Namespace, config: Config, private_tmp: Path) -> Command:
    settings = tool_settings(config, private_tmp)
    contained = settings.containment
    if contained is not None and options.network is None and (granted := judge(options.argv, settings).network) is not None:
        contained = replace(contained, network=granted)
    environment = with_markers(
        settings.environment, contained=contained is not None, network=contained.network if contained else "on"
    )
    return Command(tuple(options.argv), settings.cwd, environment, options.timeout, contained)


def _tell_of_network(command: Command) -> str | None:
    """Which part of it needs a network that it lacks: said before it starts, because it may wait long for that."""
    contained = command.containment
    if contained is None or contained.network == "on" or (user := network_user(command.argv)) is None:
        return None
    print(f"understudy: {no_network(user, contained)}", file=sys.stderr, flush=True)
    return user


async def _run(command: Command, printed: HeadTail) -> CommandResult | None:
    """None if the person at the terminal ended it."""
    sandbox = Sandbox()
    out, err = _Output(1), _Output(2)

    def on_output(stream: OutputStream, chunk: bytes) -> None:
        printed.feed(chunk)
        (out if stream == "stdout" else err).write(chunk)

    running = asyncio.ensure_future(sandbox.run(command, on_output))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return None
    finally:
        out.end()
        err.end()
        await sandbox.close()


class _Output:
    """Passes output on as it comes, byte for byte; for a terminal without control sequences."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._clean = TerminalText() if os.isatty(descriptor) else None

    def write(self, chunk: bytes) -> None:
        if self._clean is not None:
            chunk = self._clean.feed(chunk.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        self._write(chunk)

    def end(self) -> None:
        if self._clean is not None:
            self._write(self._clean.finish().encode("utf-8", "surrogateescape"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
