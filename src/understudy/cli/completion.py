"""`understudy completion`: a script that lets a shell complete our commands."""

from argparse import Namespace
from importlib import import_module
from typing import Any

from understudy.cli.commands import build_parser
from understudy.errors import AgentError


def run(options: Namespace) -> int:
    try:
        shtab: Any = import_module("shtab")
    except ImportError:
        raise AgentError("completion scripts need the package shtab: pip install shtab") from None
    print(shtab.complete(build_parser(), options.shell))
    return 0
