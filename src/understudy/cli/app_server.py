"""`understudy app-server`: the protocol of editors and the Codex SDKs, on standard input and output."""

from argparse import Namespace

from understudy.cli.parsing import wrong_usage
from understudy.cli.settings import read_overrides
from understudy.servers.stdio_start import start

STDIO = "stdio://"


def run(options: Namespace) -> int:
    if options.listen not in (STDIO, "stdio"):
        wrong_usage(
            f"--listen {options.listen}: only {STDIO} is served. Programs start `understudy app-server` and talk to it by pipes"
        )
    overrides = read_overrides(options)

    def serve() -> int:
        from understudy.servers.app_server.stdio import run as serve_clients

        return serve_clients(overrides)

    return start(serve)
