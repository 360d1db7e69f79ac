"""`understudy acp`: the Agent Client Protocol of editors, on standard input and output."""

from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.servers.stdio_start import start


def run(options: Namespace) -> int:
    overrides = read_overrides(options)

    def serve() -> int:
        from understudy.servers.acp.stdio import run as serve_editor

        return serve_editor(overrides)

    return start(serve, page="clients.md")
