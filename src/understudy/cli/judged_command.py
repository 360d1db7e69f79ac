"""What is decided about a command that a person gives, by the very settings that a turn gets."""

from collections.abc import Sequence

from understudy.policy.decide import CommandFacts, decide_command
from understudy.policy.search_path import planted_programs
from understudy.policy.steering import steering_variable
from understudy.policy.verdicts import Verdict
from understudy.tools.host import ToolSettings


def judge(argv: Sequence[str], settings: ToolSettings, *, sandbox_available: bool = True, escalated: bool = False) -> Verdict:
    return decide_command(
        CommandFacts(
            argv=tuple(argv),
            cwd=settings.cwd,
            project=settings.roots,
            approval_policy=settings.approval_policy,
            sandbox_mode=settings.sandbox_mode,
            sandbox_available=sandbox_available,
            escalated=escalated,
            rules=settings.rules,
            planted=planted_programs(settings.environment.get("PATH"), settings.cwd, settings.roots, argv[:1]),
            steered_by=steering_variable(settings.environment, settings.cwd, settings.roots),
            home=settings.home,
        )
    )
