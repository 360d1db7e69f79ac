"""What `doctor` finds out about this machine and installation: the sandbox, the store, other programs with our name."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib import metadata
from pathlib import Path

from understudy import __version__
from understudy.cli.doctor.config_findings import Finding, Level, default_config
from understudy.cli.running.surroundings import tool_settings
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.home import state_dir
from understudy.config.model import Config
from understudy.errors import AgentError, SandboxError, StoreError
from understudy.policy.environment import with_markers
from understudy.sandbox.probe import choose, describe_rungs, forced_rung
from understudy.sandbox.runner import Sandbox
from understudy.sandbox.spec import Command, CommandResult
from understudy.store.log import Store
from understudy.store.opening import is_file, open_store, open_to_others, store_exists, store_place
from understudy.store.place import refuse_network_file_system

SANDBOX = "Sandbox"
TRIAL = ("sh", "-c", "echo works")
TRIAL_SECONDS = 20.0


def examine_sandbox(config: Config | None) -> Iterator[Finding]:
    rungs = describe_rungs()
    open_mode = config is not None and config.sandbox.mode == "danger-full-access"
    broken: Level = "warning" if open_mode else "broken"  # nothing needs it in that mode
    forced = forced_rung()
    try:
        used = choose(rungs, forced)
    except SandboxError as error:
        yield Finding(SANDBOX, "used", broken, str(error))
        used = None
    for rung in rungs:
        if rung is used:
            yield Finding(SANDBOX, rung.name, "ok" if not rung.weaker else "warning", "works, and is used", rung.weaker)
        elif rung.available:
            why = "used: another is forced" if forced else "needed"
            yield Finding(SANDBOX, rung.name, "info", f"works, and is not {why}")
        else:
            wanted = used is None or rungs.index(rung) < rungs.index(used)
            details = (f"to have it: {rung.install}",) if wanted else ()
            yield Finding(SANDBOX, rung.name, "info", rung.reason, details)
    if not rungs:
        yield Finding(SANDBOX, "used", broken, "there is none for this system, so commands run only in danger-full-access")
    tried = config or default_config()  # an error in the configuration must not hide whether commands can be run
    if tried is not None and (used is not None or open_mode):
        yield _trial(tried)
    if open_mode:
        yield Finding(SANDBOX, "mode", "warning", "danger-full-access is configured: commands are not contained at all")
    if forced:
        yield Finding(SANDBOX, "forced", "info", f"UNDERSTUDY_SANDBOX_RUNG={forced}; unset it, and the first that works is used")


def _trial(config: Config) -> Finding:
    """Runs a real command as the shell tool would."""
    printed = bytearray()
    with tempfile.TemporaryDirectory(prefix="understudy-doctor-", ignore_cleanup_errors=True) as private_tmp:
        try:
            settings = tool_settings(config, Path(private_tmp))
            contained = settings.containment
            network = contained.network if contained else "on"
            env = with_markers(settings.environment, contained=contained is not None, network=network)
            command = Command(TRIAL, settings.cwd, env, TRIAL_SECONDS, contained)
            result = wait_for(lambda: _run(command, printed))
        except AgentError as error:
            return Finding(SANDBOX, "command", "broken", f"no command can be run: {error}")
    if result.exit_code == 0 and bytes(printed) == b"works\n":
        where = "in the sandbox" if contained else "without a sandbox"
        return Finding(SANDBOX, "command", "ok", f"`sh` has run {where}, in {settings.cwd}, in {result.duration:.2f} s")
    reason = result.setup_error or result.spawn_error or result.lost or f"exit code {result.exit_code}"
    said = printed.decode(errors="replace").split("\n")
    advice = "see the other lines here; `understudy sandbox -- sh -c true` tries it again"
    text = f"no command can be run in {settings.cwd}: {reason}"
    return Finding(SANDBOX, "command", "broken", text, (*filter(None, said), advice))


async def _run(command: Command, printed: bytearray) -> CommandResult:
    sandbox = Sandbox()
    try:
        return await sandbox.run(command, lambda _, chunk: printed.extend(chunk))
    finally:
        await sandbox.close()


STORE = "Conversations"
LITTLE_ROOM = 200 * 1024 * 1024
NO_ROOM = 8 * 1024 * 1024
LITTLE_NODES = 1000
SAMPLE = 20_000  # records to read, unless all are asked for


def examine_store(home: Path, *, full: bool) -> Iterator[Finding]:
    """Does not create a store."""
    folder = state_dir(home)
    if not is_file(home):
        yield from wait_for(lambda: _read(home, folder, full=full))
        return
    yield from _place(folder)
    if not store_exists(home):
        yield Finding(STORE, "store", "info", f"{store_place(home)}, which is made with the first conversation")
        yield _retention()
        return
    yield from _permissions(home, folder)
    yield from wait_for(lambda: _read(home, folder, full=full))


async def _read(home: Path, folder: Path, *, full: bool) -> list[Finding]:
    found: list[Finding] = []
    try:
        log = open_store(home, asyncio.get_running_loop())
    except StoreError as error:
        return [Finding(STORE, "store", "broken", str(error))]
    try:
        async for finding in _content(log, folder, full=full):
            found.append(finding)  # noqa: PERF401  # those that come before a failure count
    except StoreError as error:
        found.append(Finding(STORE, "store", "broken", str(error)))
    finally:
        log.close()
    return [*found, _retention()]


def _place(folder: Path) -> Iterator[Finding]:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        refuse_network_file_system(there)
    except StoreError as error:
        yield Finding(STORE, "file system", "broken", str(error))
    if not os.access(there, os.W_OK):
        yield Finding(STORE, "folder", "broken", f"{there} cannot be written to; set CODEX_HOME to a folder of your own")
    space = os.statvfs(there)
    free = space.f_bavail * space.f_frsize
    if free < LITTLE_ROOM:
        text = f"only {_size(free)} are free where conversations are kept ({there}): make room there"
        yield Finding(STORE, "disk", "broken" if free < NO_ROOM else "warning", text)
    if space.f_files and space.f_favail < LITTLE_NODES:
        yield Finding(STORE, "disk", "warning", f"only {space.f_favail} files can still be made in {there}: remove some there")


def _permissions(home: Path, folder: Path) -> Iterator[Finding]:
    exposed = open_to_others(home)
    if exposed:
        text = f"others may read conversations: chmod -R go= {folder}"
        yield Finding(STORE, "permissions", "warning", text, exposed)
    else:
        yield Finding(STORE, "permissions", "ok", "readable by you only")
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        yield Finding(STORE, "owner", "warning", f"{folder} belongs to user {owner}, and you are {os.geteuid()}")


async def _content(log: Store, folder: Path, *, full: bool) -> AsyncIterator[Finding]:
    count = await log.count()
    size = f"{count} conversation{'' if count == 1 else 's'}, {_size(await log.size())} in {log.place}"
    yield Finding(STORE, "store", "ok", size)
    damage = await log.check()
    if damage == "ok":
        yield Finding(STORE, "integrity", "ok", "checked, no damage")
    else:
        text = "damaged; put a backup in its place, or export what can still be read"
        yield Finding(STORE, "integrity", "broken", text, tuple(damage.split("\n")))
    yield await _records(log, full=full)
    private = sum(_folder_size(path) for path in (folder / "tmp").glob("*"))
    if private:
        yield Finding(STORE, "temporary files", "info", f"{_size(private)} in {folder / 'tmp'}, removed with their conversations")


async def _records(log: Store, *, full: bool) -> Finding:
    verified = await log.verify(None if full else SAMPLE)
    if verified.problems:
        text = (
            f"damage in {verified.damaged} conversation{'' if verified.damaged == 1 else 's'}; put a backup in the place of "
            f"{log.place} while no server runs, or `understudy conversations delete` what is damaged"
        )
        return Finding(STORE, "records", "broken", text, verified.problems)
    if verified.records < verified.total:
        text = f"{verified.records} of {verified.total} read, no damage; `understudy doctor --full` reads all"
        return Finding(STORE, "records", "ok", text)
    return Finding(STORE, "records", "ok", f"all {verified.total} read, no damage")


def _retention() -> Finding:
    text = "nothing is deleted automatically; `understudy conversations delete ID` forgets one, `understudy backup FILE` copies all"
    return Finding(STORE, "retention", "info", text)


def _folder_size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total


def _size(number: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1024 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError


SECTION = "Program"
PACKAGE = "understudy-codex"
COMMANDS = ("understudy", "understudy-codex")


def examine_install(home: Path) -> Iterator[Finding]:
    yield from _half_upgraded()
    yield from _elsewhere()
    yield _what_is_left(home)


def _half_upgraded() -> Iterator[Finding]:
    """If pip is stopped between two versions, the files of one and the name of the other remain."""
    try:
        said = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return  # run from a folder of sources
    if said != __version__:
        text = f"the files are of version {__version__}, and the package says {one_line(said)}: install it again"
        yield Finding(SECTION, "package", "warning", text)


def _elsewhere() -> Iterator[Finding]:
    """Runs nothing, because a program may be anybody's; the files installed beside it show whose it is."""
    ours = os.path.realpath(sys.prefix)
    seen = {ours}
    for program in _programs():
        environment = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        if environment in seen:
            continue
        seen.add(environment)
        version = _version_in(Path(environment))
        where = one_line(str(program))
        if version is None:
            text = f"{where} is not of the package `{PACKAGE}`, and answers to the same name: start this one as {_this_one()}"
            yield Finding(SECTION, "another program", "warning", text)
        elif _number(version) > _number(__version__):
            text = f"{where} is newer: {one_line(version)}, and this is {__version__}. Use that one, and uninstall this one"
            yield Finding(SECTION, "another version", "warning", text)
        else:
            yield Finding(SECTION, "another version", "info", f"{where} is version {one_line(version)}")


def _programs() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in COMMANDS:
            program = Path(folder or ".", name)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                yield program


def _version_in(environment: Path) -> str | None:
    found = sorted(environment.glob("lib/python3*/site-packages/understudy_codex-*.dist-info"))
    return found[-1].name.removesuffix(".dist-info").partition("-")[2] if found else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _this_one() -> str:
    return one_line(os.path.join(sys.prefix, "bin", COMMANDS[1]))


def _what_is_left(home: Path) -> Finding:
    """Removing a package never removes a person's own data."""
    kept = [path for path in (state_dir(home), home / "config.toml", home / "auth.json") if path.exists()]
    if not kept:
        return Finding(SECTION, "uninstalling", "info", "leaves nothing: there are no conversations and no configuration yet")
    named = ", ".join(one_line(str(path)) for path in kept)
    text = f"leaves {named}: conversations, tokens and keys are there until you remove them (`understudy backup FILE` keeps a copy)"
    return Finding(SECTION, "uninstalling", "info", text)
