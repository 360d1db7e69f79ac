"""Commands for servers over HTTP: `serve`, and the tokens of its callers.

Also the command that editors start, and those for programs that speak the app server's protocol, or send ops and read events line
by line.
"""

import argparse

from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides
from understudy.config.home import page_path


def add_acp(commands: CommandParsers) -> None:
    server = add(
        commands,
        "acp",
        "serving.stdio:run_acp",
        "serve the Agent Client Protocol of editors on standard input and output",
        more=f"Editors start it; {page_path('clients.md')} says what to put into their settings.",
    )
    add_overrides(server)


def add_app_server(commands: CommandParsers) -> None:
    server = add(
        commands,
        "app-server",
        "serving.stdio:run_app_server",
        "serve the protocol of editors and the Codex SDKs on standard input and output, or over WebSockets",
        more=f"Programs start it; {page_path('app-server.md')} describes the protocol.",
    )
    server.add_argument(
        "--listen",
        metavar="URL",
        default="stdio://",
        help="where to serve: stdio:// (the default), ws://IP:PORT or unix://PATH, both for WebSockets",
    )
    server.add_argument("--ws-auth", choices=("capability-token",), help="ask WebSocket clients for a token")
    server.add_argument("--ws-token-file", metavar="FILE", help="the file that has the token")
    server.add_argument("--ws-token-sha256", metavar="HEX", help="or its SHA-256, in hexadecimal digits")
    add_overrides(server)
    proto = add(
        commands,
        "proto",
        "serving.stdio:run_proto",
        "read submissions and print events, one JSON object per line",
        more=f"For programs that speak codex's oldest protocol; {page_path('app-server.md', 'proto')} describes it.",
    )
    add_overrides(proto)


def add_http(commands: CommandParsers) -> None:
    serve = add(
        commands,
        "serve",
        "serving.serve",
        "serve MCP, REST and a page over HTTP",
        more=f"{page_path('serve.md')} says how to use it.",
    )
    serve.add_argument("--host", help="the address to listen on (default: 127.0.0.1, which only this machine can reach)")
    serve.add_argument("--port", type=_port, help="the port to listen on (default: 8722; 0: any that is free)")
    serve.add_argument(
        "--unix",
        metavar="PATH",
        help="listen on this Unix socket, where users are known without a token; with --host or --port, there too",
    )
    serve.add_argument("--token-file", metavar="FILE", help="where the first token is (default: understudy/token in CODEX_HOME)")
    serve.add_argument("--tls-cert", metavar="FILE", help="a certificate in PEM, followed by its intermediate certificates")
    serve.add_argument("--tls-key", metavar="FILE", help="the key of the certificate")
    serve.add_argument("--public-url", metavar="URL", help="the address by which clients reach the server behind a proxy")
    serve.add_argument("--allow-host", action="append", metavar="NAME", help="another host name to answer to; may be given again")
    serve.add_argument(
        "--allow-origin", action="append", metavar="URL", help="origin of web pages that may call the server; may be given again"
    )
    serve.add_argument("--no-auth", action="store_true", help="need no token: any program on this machine may call")
    serve.add_argument("--log-format", metavar="FORMAT", help="form of the log: text or json (default: text)")
    serve.add_argument(
        "--role",
        choices=("all", "front", "worker"),
        default="all",
        help="with conversations in a database: worker runs turns of this host, front shows and passes on, all does both (default)",
    )
    serve.add_argument("--host-name", metavar="NAME", help="the name of this machine among workers (default: the system's)")
    serve.add_argument("--open", action="store_true", help="open the page in a browser, logged in")
    add_overrides(serve)

    page = add(
        commands,
        "open",
        "serving.serve:run_open",
        "open the page of the running server in a browser",
        more=f"{page_path('page.md')} says what it shows.",
    )
    page.add_argument("id", metavar="ID", nargs="?", help="the conversation to show (default: the list of them)")
    page.add_argument("--print", action="store_true", help="print the link, which works once, instead of opening a browser")
    page.add_argument("--qr", action="store_true", help="print it as a QR code, for the camera of a phone")

    token = commands.add_parser(
        "token", help="decide who may call a server over HTTP", description="Decide who may call a server over HTTP."
    )
    token.set_defaults(act=None, help_of=token)
    actions: CommandParsers = token.add_subparsers(metavar="ACTION", title="actions")
    new = add(actions, "add", "serving.token", "make a token, and print it once")
    new.set_defaults(action="add")
    new.add_argument("name", metavar="NAME", help="who it is for: conversations and approvals bear this name")
    new.add_argument(
        "--rights", metavar="LIST", help="what they may do with their own conversations: run, approve, read (the default), budget"
    )
    new.add_argument("--others", metavar="LIST", help="what they may do with everybody else's (default: nothing)")
    new.add_argument(
        "--root",
        action="append",
        metavar="DIR",
        help="work only in this folder; may be given again (default: anywhere); does not hold what they approve",
    )
    new.add_argument("--sandbox", metavar="LIST", help="sandbox modes they may choose (default: read-only,workspace-write)")
    new.add_argument(
        "--budget",
        action="append",
        default=[],
        metavar="LIMIT=N/PERIOD",
        help="what they may use in a day, week or month, such as cost_usd=50/month (or tokens, requests); may be given again",
    )
    new.add_argument("--expires", metavar="DATE", help="the last day on which it is valid (default: it does not expire)")
    listing = add(actions, "list", "serving.token", "list who has a token")
    listing.set_defaults(action="list")
    add_json(listing)
    gone = add(actions, "revoke", "serving.token", "make a token invalid")
    gone.set_defaults(action="revoke")
    gone.add_argument("name", metavar="NAME", help="whose token")


def add_workers(commands: CommandParsers) -> None:
    about = "list the hosts on which turns run, where many machines share a database"
    workers = add(commands, "workers", "serving.workers", about, more=f"{page_path('many-machines.md')} says how that is set up.")
    add_json(workers)
    actions: CommandParsers = workers.add_subparsers(metavar="ACTION", title="actions")
    drain = add(
        actions,
        "drain",
        "serving.workers:drain",
        "let a host begin nothing new, and wait until nothing runs there",
        more="Before an update, say. Exit code 1 where something still runs after `understudy.serve.drain_seconds`. It takes up "
        "work again when its worker is started anew.",
    )
    drain.add_argument("name", metavar="NAME", help="the name of the host")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number up to 65535")
    return int(text)
