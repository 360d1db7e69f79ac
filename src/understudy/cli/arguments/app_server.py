"""Commands for programs that speak the app server's protocol, or send ops and read events line by line."""

from understudy.cli.arguments.adding import CommandParsers, add, add_overrides


def add_app_server(commands: CommandParsers) -> None:
    server = add(
        commands,
        "app-server",
        "app_server",
        "serve the protocol of editors and the Codex SDKs on standard input and output",
        more="Programs start it; docs/app-server.md has the protocol.",
    )
    server.add_argument("--listen", metavar="URL", default="stdio://", help="stdio:// (the default), and nothing else")
    add_overrides(server)
    proto = add(
        commands,
        "proto",
        "proto",
        "take submissions and print events, a line of JSON each",
        more="For programs that speak codex's own protocol; docs/app-server.md#proto has it.",
    )
    add_overrides(proto)
