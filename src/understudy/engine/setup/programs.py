"""Programs that the user has running outside the sandbox: those of their files that lie where the agent may write.

Whoever can write such a file is outside the sandbox at the program's next start.
"""

import os
from collections.abc import Iterator

from understudy.config.model import Config
from understudy.places.resolving import is_within
from understudy.policy.words import Words
from understudy.tools.acts.dependencies import run_by
from understudy.tools.acts.wildcards import TooWide


def programs_in_roots(config: Config) -> frozenset[str]:
    """Real paths of scripts and programs that the configuration names. What these read by themselves is not examined."""
    if config.sandbox.mode != "workspace-write":
        return frozenset()
    roots = [os.path.realpath(root) for root in (config.cwd, *config.sandbox.writable_roots)]
    found: set[str] = set()
    for argv, cwd in _commands(config):
        try:
            found.update(run_by(argv, cwd))
        except TooWide:
            continue
    return frozenset(path for path in found if any(is_within(path, root) for root in roots))


def _commands(config: Config) -> Iterator[tuple[Words, str]]:
    """Each command with the folder in which it is started."""
    for server in config.mcp_servers:
        if server.command and not server.sandboxed:
            yield (server.command, *server.args), os.path.join(config.cwd, os.path.expanduser(server.cwd or ""))
    for argv in (config.notify, config.questions.command):
        if argv:
            yield argv, str(config.home)
