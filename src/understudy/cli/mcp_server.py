"""`understudy mcp-server` with settings; without any, `main` takes a shorter way."""

from argparse import Namespace

from understudy.cli.greeting import greet_person
from understudy.cli.settings import read_overrides
from understudy.servers.mcp.start import serve


def run(options: Namespace) -> int:
    overrides = read_overrides(options)
    greet_person()
    return serve(overrides)
