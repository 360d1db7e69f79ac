"""`understudy policy`: what the rules say about a command, and whether the user's tests of their rules pass.

Also whether commands can be contained on this machine.
"""

import json
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any

from understudy.cli.parsing import wrong_usage
from understudy.cli.running.surroundings import configured, judge, tool_settings
from understudy.cli.tell.terminal import Flow, one_line, open_console
from understudy.errors import ConfigError, SandboxError
from understudy.policy.check import Situation, describe, explain, run_cases
from understudy.sandbox.probe import choose, describe_rungs, forced_rung
from understudy.tools.host import ToolSettings


def can_contain() -> bool:
    """Tries it now, which takes some tens of milliseconds."""
    try:
        choose(describe_rungs(), forced_rung())
    except SandboxError:
        return False
    return True


def run(options: Namespace) -> int:
    return _check(options) if options.action == "check" else _test(options)


def _check(options: Namespace) -> int:
    if not options.argv:
        wrong_usage("there is no command: understudy policy check [options] -- CMD …")
    settings = _settings(options)
    verdict = judge(options.argv, settings, sandbox_available=can_contain(), escalated=options.escalated)
    network = settings.containment.network if settings.containment is not None else "on"
    lines = [*describe(verdict, network), ("approval policy", settings.approval_policy), ("sandbox mode", settings.sandbox_mode)]
    lines.append(("means", explain(verdict, _situation(settings), tuple(options.argv))))
    if options.json:
        told: dict[str, Any] = {name.replace(" ", "_"): value for name, value in lines}
        print(json.dumps({**told, "contained": verdict.contained}))
        return 0
    console = open_console()
    width = max(len(name) for name, _ in lines) + 2
    for name, value in lines:
        Flow(console, first=f"{name:<{width}}", indent=" " * width).whole(one_line(value))
    return 0


def _test(options: Namespace) -> int:
    path = Path(options.file)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{path}: {error}") from None
    options.cwd = None
    settings = _settings(options)
    outcomes = run_cases(document, _situation(settings), source=str(path))
    failed = [outcome for outcome in outcomes if outcome.problems]
    for outcome in outcomes:
        print(f"{'FAILED' if outcome.problems else 'ok    '}  {one_line(outcome.name)}")
        for problem in outcome.problems:
            print(f"        {one_line(problem)}")
        if outcome.problems:
            print(f"        because: {one_line(outcome.verdict.reason)} (rule {one_line(outcome.verdict.rule)})")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} hold", file=sys.stderr)
    return 1 if failed else 0


def _situation(settings: ToolSettings) -> Situation:
    return Situation(
        settings.cwd,
        settings.roots,
        settings.approval_policy,
        settings.sandbox_mode,
        settings.rules,
        home=settings.home,
        protected=settings.protected,
    )


def _settings(options: Namespace) -> ToolSettings:
    config = configured(options)
    return tool_settings(config, config.state_dir / "tmp" / "none")
