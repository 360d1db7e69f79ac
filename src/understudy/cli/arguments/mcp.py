"""`understudy mcp`: without an action it serves; the actions are about the servers whose tools the model may use."""

from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides, seconds

MCP_ACTIONS = ("list", "add", "remove", "test")
NAME = "the server's name"


def add_mcp(commands: CommandParsers) -> None:
    mcp = add(
        commands,
        "mcp",
        "mcp_server",
        "manage other MCP servers; without an action, the same as mcp-server",
        more="The actions manage the servers in config.toml, whose tools the model is offered.",
    )
    add_overrides(mcp)
    actions: CommandParsers = mcp.add_subparsers(metavar="ACTION", title="actions")

    listing = add(actions, "list", "mcp_configured", "list the servers whose tools the model is offered here")
    listing.set_defaults(action="list")
    add_json(listing)
    add_overrides(listing, keep=True)

    adding = add(
        actions,
        "add",
        "mcp_configured",
        "put a server into config.toml",
        more="A server is a program, given after `--`, or an address (--url). The rest of config.toml stays as it is.",
    )
    adding.set_defaults(action="add")
    adding.add_argument("name", metavar="NAME", help=NAME)
    adding.add_argument("--url", help="the address of a server (streamable HTTP)")
    adding.add_argument("--bearer-token-env-var", metavar="VARIABLE", help="the variable that holds its token")
    adding.add_argument(
        "--header-env",
        action="append",
        default=[],
        metavar="HEADER=VARIABLE",
        help="a header whose value is in a variable; may be given again",
    )
    adding.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for it; may be given again")
    adding.add_argument(
        "--env-var",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of yours that is passed on to it; may be given again",
    )
    adding.add_argument("--cwd", metavar="DIR", help="where it runs (default: in the working directory of each conversation)")
    adding.add_argument("--required", action="store_true", help="a turn fails if it does not start")
    adding.add_argument("--sandboxed", action="store_true", help="its program runs in the sandbox")
    adding.add_argument("--startup-timeout", type=seconds, metavar="SECONDS", help="how long it may take to start (default: 30)")
    adding.add_argument("--tool-timeout", type=seconds, metavar="SECONDS", help="how long one call may take (default: 300)")
    adding.add_argument("--replace", action="store_true", help="replace an existing server of this name")
    adding.add_argument("argv", nargs="*", metavar="-- CMD …", help="the program and its arguments")

    removing = add(actions, "remove", "mcp_configured", "remove servers from config.toml")
    removing.set_defaults(action="remove")
    removing.add_argument("names", nargs="+", metavar="NAME", help=NAME)

    testing = add(
        actions,
        "test",
        "mcp_test",
        "start servers as a conversation here would, and list their tools",
        more="Without names, all enabled servers are started. Exit code 1 if one does not work.",
    )
    testing.add_argument("names", nargs="*", metavar="NAME", help=NAME)
    add_json(testing)
    add_overrides(testing, keep=True)
