"""`understudy app-server` with settings, the protocol of editors and the Codex SDKs; without any, `main` takes a shorter way."""

from argparse import Namespace

from understudy.cli.parsing import wrong_usage
from understudy.cli.settings import read_overrides
from understudy.servers.app_server.start import serve

STDIO = "stdio://"


def run(options: Namespace) -> int:
    if options.listen not in (STDIO, "stdio"):
        wrong_usage(
            f"--listen {options.listen}: only {STDIO} is served. Programs start `understudy app-server` and talk to it by pipes"
        )
    return serve(read_overrides(options))
