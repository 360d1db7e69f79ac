"""Commands for programs that speak the app server's protocol, or send ops and read events line by line."""

from understudy.cli.arguments.adding import CommandParsers, add, add_overrides
from understudy.config.pages import page_path


def add_app_server(commands: CommandParsers) -> None:
    server = add(
        commands,
        "app-server",
        "app_server",
        "serve the protocol of editors and the Codex SDKs on standard input and output",
        more=f"Programs start it; {page_path('app-server.md')} describes the protocol.",
    )
    server.add_argument("--listen", metavar="URL", default="stdio://", help="stdio:// (the default), and nothing else")
    add_overrides(server)
    proto = add(
        commands,
        "proto",
        "proto",
        "read submissions and print events, one JSON object per line",
        more=f"For programs that speak codex's oldest protocol; {page_path('app-server.md', 'proto')} describes it.",
    )
    add_overrides(proto)
