"""`understudy app-server`: the protocol of editors and the Codex SDKs, on standard input and output."""

from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.errors import BadRequest

STDIO = "stdio://"


def run(options: Namespace) -> int:
    if options.listen not in (STDIO, "stdio"):
        raise BadRequest(
            f"--listen {options.listen}: only {STDIO} is served. Programs start `understudy app-server` and talk to it by pipes"
        )
    overrides = read_overrides(options)
    from understudy.servers.app_server.stdio import run as serve

    return serve(overrides)
