"""`understudy hooks trust`: one hook of a folder counts from here on, as it is now."""

from argparse import Namespace

from understudy.cli.hooks.found import config_of, hooks_of
from understudy.cli.terminal import one_line
from understudy.engine.hooks.loading import hook_trust
from understudy.errors import BadRequest


def run(options: Namespace) -> int:
    config = config_of(options)
    judged = {each.hook.key: each for each in hooks_of(config).judged}
    found = judged.get(options.key)
    if found is None:
        there = "".join(f"\n  {key}" for key in judged)
        raise BadRequest(f"there is no hook {options.key} in {config.cwd}" + (f"; there are{there}" if there else ""))
    if found.hook.file.source == "user":
        print(f"it is in a file of your own, and counts already: {one_line(options.key)}")
        return 0
    hook_trust(config.home).trust({found.hook.key: found.digest})
    print(one_line(f"trusted: {found.hook.key}: {found.hook.command}"))
    return 0
