"""`understudy proto`: submissions as lines in, events as lines out."""

import os
from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.errors import BadRequest
from understudy.servers.stdio_start import start


def run(options: Namespace) -> int:
    if _is_terminal(0):
        raise BadRequest(
            "proto reads submissions from a program, and standard input is a terminal. To talk to the agent: understudy exec"
        )
    overrides = read_overrides(options)

    def serve() -> int:
        from understudy.servers.proto.stdio import run as serve_client

        return serve_client(overrides)

    return start(serve)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False  # it is closed
