"""What `doctor` finds about the sandbox: which ways to contain a command there are, and whether a command really runs."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from understudy.cli.config_findings import default_config
from understudy.cli.finding import Finding, Level
from understudy.cli.surroundings import tool_settings
from understudy.cli.waiting import wait_for
from understudy.config.model import Config
from understudy.errors import AgentError, SandboxError
from understudy.policy.environment import with_markers
from understudy.sandbox.probe import choose, describe_rungs, forced_rung
from understudy.sandbox.runner import Sandbox
from understudy.sandbox.spec import Command, CommandResult

SECTION = "Sandbox"
TRIAL = ("sh", "-c", "echo works")
TRIAL_SECONDS = 20.0


def examine_sandbox(config: Config | None) -> Iterator[Finding]:
    rungs = describe_rungs()
    open_mode = config is not None and config.sandbox.mode == "danger-full-access"
    broken: Level = "warning" if open_mode else "broken"  # in that mode nobody asks for it
    forced = forced_rung()
    try:
        used = choose(rungs, forced)
    except SandboxError as error:
        yield Finding(SECTION, "used", broken, str(error))
        used = None
    for rung in rungs:
        if rung is used:
            yield Finding(SECTION, rung.name, "ok" if not rung.weaker else "warning", "works, and is used", rung.weaker)
        elif rung.available:
            why = "used: another is forced" if forced else "needed"
            yield Finding(SECTION, rung.name, "info", f"works, and is not {why}")
        else:
            wanted = used is None or rungs.index(rung) < rungs.index(used)
            details = (f"to have it: {rung.install}",) if wanted else ()
            yield Finding(SECTION, rung.name, "info", rung.reason, details)
    if not rungs:
        yield Finding(SECTION, "used", broken, "there is none for this system, so commands run only in danger-full-access")
    tried = config or default_config()  # what is wrong elsewhere does not hide whether a command can be run
    if tried is not None and (used is not None or open_mode):
        yield _trial(tried)
    if open_mode:
        yield Finding(SECTION, "mode", "warning", "danger-full-access is configured: commands are not contained at all")
    if forced:
        yield Finding(SECTION, "forced", "info", f"UNDERSTUDY_SANDBOX_RUNG={forced}; unset it, and the first that works is used")


def _trial(config: Config) -> Finding:
    """A real command, as the shell tool would run it here."""
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
            return Finding(SECTION, "command", "broken", f"no command can be run: {error}")
    if result.exit_code == 0 and bytes(printed) == b"works\n":
        where = "in the sandbox" if contained else "without a sandbox"
        return Finding(SECTION, "command", "ok", f"`sh` has run {where}, in {settings.cwd}, in {result.duration:.2f} s")
    reason = result.setup_error or result.spawn_error or result.lost or f"exit code {result.exit_code}"
    said = printed.decode(errors="replace").split("\n")
    advice = "see the other lines here; `understudy sandbox -- sh -c true` tries it again"
    text = f"no command can be run in {settings.cwd}: {reason}"
    return Finding(SECTION, "command", "broken", text, (*filter(None, said), advice))


async def _run(command: Command, printed: bytearray) -> CommandResult:
    sandbox = Sandbox()
    try:
        return await sandbox.run(command, lambda _, chunk: printed.extend(chunk))
    finally:
        await sandbox.close()
