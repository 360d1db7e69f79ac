"""`understudy mcp-server` with settings; without any, `main` takes a shorter way."""

from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.servers.mcp.first import serve


def run(options: Namespace) -> int:
    return serve(read_overrides(options))
