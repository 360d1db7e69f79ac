"""`understudy acp`, `app-server`, `proto` and `mcp-server` with settings: servers on standard input and output."""

import os
from argparse import Namespace

from understudy.cli.greeting import greet_person
from understudy.cli.parsing import wrong_usage
from understudy.cli.settings import read_overrides
from understudy.errors import BadRequest
from understudy.servers.app_server.start import serve as serve_app_server
from understudy.servers.stdio.start import serve as serve_mcp
from understudy.servers.stdio.start import start


def run_acp(options: Namespace) -> int:
    overrides = read_overrides(options)

    def serve() -> int:
        from understudy.servers.acp.dispatcher import run as serve_editor

        return serve_editor(overrides)

    return start(serve, page="clients.md")


STDIO = "stdio://"


def run_app_server(options: Namespace) -> int:
    if options.listen not in (STDIO, "stdio"):
        from understudy.cli.serving.web_sockets import run  # most programs use pipes

        return run(options)
    if options.ws_auth or options.ws_token_file or options.ws_token_sha256:
        wrong_usage("--ws-auth and the token go with `--listen ws://IP:PORT`")
    return serve_app_server(read_overrides(options))


def run_proto(options: Namespace) -> int:
    if _is_terminal(0):
        raise BadRequest(
            "proto reads submissions from a program, and standard input is a terminal. To talk to the agent: understudy exec"
        )
    overrides = read_overrides(options)

    def serve() -> int:
        from understudy.servers.proto.session import run as serve_client

        return serve_client(overrides)

    return start(serve)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False  # it is closed


def run_mcp_server(options: Namespace) -> int:
    overrides = read_overrides(options)
    greet_person()
    return serve_mcp(overrides)
