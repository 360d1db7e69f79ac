"""One run of `exec`: makes or finds the conversation, sends the message, and shows its turn to the end.

Also writes the file of `exec -o`. A model has chosen its content, and may have put a link in its place.
"""

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence

from understudy.cli.exec.input import ExecTask, say_aside
from understudy.cli.exec.options import ExecRequest
from understudy.cli.exec.patient_errors import patient_errors
from understudy.cli.exec.settings import add_folders, check_repository, checked, defaults_for, overrides_from
from understudy.cli.streams import write_interrupted
from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import BadRequest
from understudy.places.named_by_users import follow_links, is_in
from understudy.places.places import Places
from understudy.places.walking import open_plain
from understudy.protocol.callers import LOCAL
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Terms
from understudy.servers.process.process import hide_memory

Act = Callable[[Callable[[], None]], None]


def write_last_message(file: str, message: str, roots: Sequence[str], act: Act = lambda work: work()) -> None:
    """`roots`: real folders in which the model may write. Inside them no link is followed, only a regular file is replaced, and
    `act` writes with the rights of the model's commands.

    Raises OSError and ValueError.
    """
    path = os.path.join(os.getcwd(), file)
    folder, name = follow_links(path, lambda folder: is_in(folder, roots))
    if not name or not is_in(folder, roots):
        with open(path, "w", encoding="utf-8", newline="") as target:
            target.write(message)
        return

    def replace() -> None:
        descriptor = open_plain(folder)
        try:
            _replace(descriptor, name, message)
        finally:
            os.close(descriptor)

    act(replace)


def _replace(folder: int, name: str, message: str) -> None:
    mode: int | None = None
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "something stands there that is not a file")
        mode = stat.S_IMODE(before.st_mode) & 0o777
    beside = f".{os.urandom(6).hex()}.last-message"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(message)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(beside, dir_fd=folder)
        raise


FAILED = 1
READ_AT_ONCE = 50  # rows of the list of conversations


class Signals:
    """The first signal asks for an end, the second does not wait for it."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.interrupt: Callable[[], object] | None = None  # set once there is something to interrupt

    def receive(self, number: int) -> None:
        if self.first is None:
            self.first = number
        if self.interrupt is not None:
            self.interrupt()


async def run_task(task: ExecTask, signals: Signals) -> int:
    """Raises `AgentError` if nothing could be begun, or the log cannot be read or written."""
    request = task.request
    main = asyncio.current_task()
    assert main is not None
    signals.interrupt = main.cancel
    if signals.first is not None:  # it came before there was anything to interrupt
        main.cancel()
    engine = Engine(defaults=defaults_for(request), reads_user_file=not request.ignore_user_config, given_by="`-c`")
    try:
        return await _run(engine, task, signals)
    except asyncio.CancelledError:
        if signals.first is None:
            raise
        if request.json:
            write_interrupted()
        return FAILED
    finally:
        signals.interrupt = None
        await engine.close()


async def _run(engine: Engine, task: ExecTask, signals: Signals) -> int:
    request = task.request
    if request.action == "review":
        from understudy.cli.exec.review import with_review

        config = engine.configure(overrides_from(request))
        task = await with_review(task, config)
        if task.review is not None and task.review.known is not None:
            sys.stdout.write(shown := task.review.present(""))
            sys.stdout.flush()
            return 0 if request.last_message is None else _write_last(request.last_message, shown, places_of(config))
    terms = await _terms(task)
    handle, config, overrides = await _open(engine, request)
    setup = handle.setup() if request.last_message is not None else None
    if request.json:
        for notice in config.notices:  # not an event, because programs compare those that they get
            say_aside(f"understudy: {visible(notice)}")
        from understudy.cli.exec.json_viewer import show_as_json as show
    else:
        from understudy.cli.exec.person import show_to_person as show
    async with patient_errors() as errors, show(handle, config, task, errors) as viewer:
        signals.interrupt = viewer.interrupt
        if signals.first is not None:
            viewer.give_up()
            return FAILED
        await viewer.send(task.message(), overrides, terms)
        handle.durable()  # the first line waits for the disk, so do not hold records back to share a commit
        await asyncio.sleep(0)  # lets the writer commit it while we go on
        _hide_memory()
        code = await viewer.exit_code
    if code == 0 and request.until is not None and not viewer.until_held:
        code = FAILED
    if code != 0 or viewer.output_lost:
        return code or FAILED
    message = viewer.final_message or ""
    if request.last_message is not None and setup is not None:
        shown = message if task.review is None else task.review.present(message)
        code = _write_last(request.last_message, shown, places_of(setup.config, setup.pins))
    return code if task.review is None or code != 0 else task.review.exit_code(message)


def _hide_memory() -> None:
    """The environment contains keys, and commands of the model will run soon. Done while the model is working."""
    hide_memory()


async def _terms(task: ExecTask) -> Terms | None:
    until = task.request.until or ""
    if task.schema is None and task.budget is None and not until:
        return None
    if task.schema is not None:
        from understudy.engine.turn.answer_form import schema_problem, shape_problem

        problem = shape_problem(task.schema) or await schema_problem(task.schema)
        if problem is not None:
            raise BadRequest(f"output schema {task.request.output_schema} cannot be used: {problem}")
    return Terms(task.schema, task.budget, insists=not task.request.json or task.review is not None, until=until)


async def _open(engine: Engine, request: ExecRequest) -> tuple[Handle, Config, Overrides | None]:
    """The conversation, the configuration of its turn, and the settings that change with its message."""
    chosen = overrides_from(request)
    if request.begins:
        config = engine.configure(chosen)
        config = checked(request, config)
        check_repository(request, config)
        handle = await engine.create(LOCAL, add_folders(request, chosen, config), thread_source=_thread_source(request))
        return handle, config, None
    conversation_id = await find_conversation(engine, request)
    if request.action == "fork":
        handle = await engine.fork(LOCAL, conversation_id, kept=not request.ephemeral, thread_source=_thread_source(request))
    elif request.ephemeral:
        handle = await engine.copy_in_memory(LOCAL, conversation_id)
    else:
        handle = await engine.find(LOCAL, conversation_id)
        await handle.make_ready()
    config = handle.setup().config if chosen == Overrides() else engine.configure(handle.with_changes(chosen))
    config = checked(request, config)
    check_repository(request, config)
    chosen = add_folders(request, chosen, config)
    return handle, config, None if chosen == Overrides() else chosen


def _thread_source(request: ExecRequest) -> str | None:
    source = request.thread_source
    if source and not is_unicode(source):
        raise BadRequest(f"--thread-source {visible(source)} is not UTF-8")
    return source or None


async def find_conversation(engine: Engine, request: ExecRequest) -> ConversationId:
    from understudy.store.lookup import find_id, newest_id

    if not request.last:
        return await find_id(engine.log, request.thread or "")
    here = request.cwd or os.getcwd()
    found = await newest_id(engine.log, None if request.all else here)
    if found is None:
        where = "there is no conversation yet" if request.all else f"no conversation has worked in {here} yet"
        raise BadRequest(f"nothing to {request.action}: {where}; `understudy conversations` lists those there are")
    return found


def _write_last(file: str, message: str, places: Places) -> int:
    if not message:
        sys.stderr.write(f"understudy: there was no final message, so {file} is empty\n")
    try:
        write_last_message(file, message, places.roots, places.act)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"understudy: the last message cannot be written to {file}: {reason}\n")
        return FAILED
    return 0
