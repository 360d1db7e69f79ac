"""`understudy proto`: submissions as lines in, events as lines out."""

import os
from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.errors import BadRequest


def run(options: Namespace) -> int:
    if os.isatty(0):
        raise BadRequest(
            "proto reads submissions from a program, and standard input is a terminal. To talk to the agent: understudy exec"
        )
    overrides = read_overrides(options)
    from understudy.servers.proto.stdio import run as serve

    return serve(overrides)
