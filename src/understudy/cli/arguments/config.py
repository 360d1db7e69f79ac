"""Commands about the configuration.

Commands about models, their keys and how well they do.

`understudy mcp`: without an action it serves; the actions are about the servers whose tools the model may use.
"""

import argparse

from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides, count, positive, seconds
from understudy.cli.parsing import Parser
from understudy.config.home import page_path


def add_config(commands: CommandParsers) -> None:
    config = commands.add_parser(
        "config", help="look at config.toml, change it, check it", description="Look at config.toml, change it, check it."
    )
    config.set_defaults(act=None, help_of=config)
    actions: CommandParsers = config.add_subparsers(metavar="ACTION", title="actions")
    get = add(
        actions,
        "get",
        "configuration.config",
        "print a value of config.toml, or all of it",
        more="Keys, tokens and passwords are left out.",
    )
    get.set_defaults(action="get")
    get.add_argument("key", nargs="?", metavar="KEY", help="a dotted key, such as understudy.budget.tokens")
    add_json(get)
    set_ = add(
        actions,
        "set",
        "configuration.config",
        "change one value of config.toml",
        more="Comments are kept. If the key is unknown or the value is not valid, nothing is written.",
    )
    set_.set_defaults(action="set")
    set_.add_argument("key", metavar="KEY", help="a dotted key, such as understudy.budget.tokens")
    set_.add_argument("value", nargs="?", metavar="VALUE", help="a TOML value, or plain text; - reads it from standard input")
    set_.add_argument("--unset", action="store_true", help="remove the key, so that its default applies")
    check = add(
        actions,
        "check",
        "configuration.config",
        "say what is wrong with config.toml, line by line",
        more="Exit code 1 if a key is misspelt or a value is not valid.",
    )
    check.set_defaults(action="check")
    check.add_argument("file", nargs="?", metavar="FILE", help="check this file instead")
    add_json(check)
    sample = add(actions, "sample", "configuration.config", "print a config.toml that has everything in it, to copy from")
    sample.set_defaults(action="sample")


KEY_IN_ARGUMENTS = (
    "a key on the command line can be read by every user of this machine, and stays in the shell's history\n"
    "Give it on standard input: printenv OPENAI_API_KEY | understudy login --with-api-key"
)


def add_models(commands: CommandParsers) -> None:
    model = commands.add_parser("model", help="look at models", description="Look at models.")
    model.set_defaults(act=None, help_of=model)
    actions: CommandParsers = model.add_subparsers(metavar="ACTION", title="actions")
    listing = add(
        actions,
        "list",
        "configuration.model_list",
        "list a provider's models and what is known about each",
        more="The provider is asked; if it cannot be, the models that understudy itself knows are listed.",
    )
    listing.add_argument("--provider", metavar="NAME", help="list the models of this provider (default: the configured one)")
    listing.add_argument("--offline", action="store_true", help="do not ask the provider")
    listing.add_argument("--all", action="store_true", help="also list models that are not for conversations")
    add_json(listing)
    add_overrides(listing)


def add_bench(commands: CommandParsers) -> None:
    bench = add(
        commands,
        "bench-agent",
        "running.bench_agent",
        "let an agent solve a folder of tasks, and judge it by hidden tests",
        more=f"Asks the configured model, which may cost money; {page_path('bench-agent.md')} has the format of a task.",
    )
    bench.add_argument("-m", "--model", help="the model to ask (default: as configured)")
    bench.add_argument("--tasks", metavar="DIR", help="the folder of tasks (default: those that come with understudy)")
    bench.add_argument("--only", action="append", default=[], metavar="NAME", help="tasks of this name (may have * and ?) or tag")
    bench.add_argument("--list", action="store_true", help="list the tasks")
    bench.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="[NAME=]COMMAND",
        help="run this agent beside ours, on the same tasks; {prompt}, {cwd} and {model} are filled in; may be given again",
    )
    bench.add_argument("--without-ours", action="store_true", help="run only the agents of --agent")
    bench.add_argument("--repetitions", type=positive, default=1, metavar="N", help="try each task N times (default: 1)")
    bench.add_argument("--jobs", type=positive, default=1, metavar="N", help="run N tasks at once (default: 1)")
    bench.add_argument("--json", metavar="FILE", help="write results to FILE; what is in it already is not run again")
    bench.add_argument("--keep", metavar="DIR", help="keep the folder of each run in DIR")
    add_overrides(bench)


def add_keys(commands: CommandParsers) -> None:
    login = add(
        commands,
        "login",
        "configuration.login",
        "store an API key for a provider",
        more="You are asked for it, or it is read from standard input. A key in the environment takes precedence.",
    )
    login.set_defaults(action="login")
    if isinstance(login, Parser):
        login.about_other_words = KEY_IN_ARGUMENTS
    login.add_argument("--provider", metavar="NAME", help="whose key it is (default: the provider that is configured)")
    login.add_argument("--with-api-key", action="store_true", help="read the key from standard input, even at a terminal")
    login.add_argument("--api-key", metavar="KEY", help=argparse.SUPPRESS)  # codex's old option; refused with the reason
    actions: CommandParsers = login.add_subparsers(metavar="ACTION", title="actions")
    status = add(
        actions,
        "status",
        "configuration.login",
        "say which providers have a key, and where it comes from",
        more="Exit code 1 if there is none.",
    )
    status.set_defaults(action="status")
    logout = add(commands, "logout", "configuration.login", "remove a key that login stored")
    logout.set_defaults(action="logout")
    logout.add_argument("--provider", metavar="NAME", help="whose key (default: the only one)")
    logout.add_argument("--all", action="store_true", help="every key")


MCP_ACTIONS = ("list", "add", "remove", "test", "login", "logout")
NAME = "the server's name"


def add_mcp(commands: CommandParsers) -> None:
    mcp = add(
        commands,
        "mcp",
        "serving.stdio:run_mcp_server",
        "manage other MCP servers; without an action, the same as mcp-server",
        more="The actions manage the servers in config.toml, whose tools the model is offered.",
    )
    add_overrides(mcp)
    actions: CommandParsers = mcp.add_subparsers(metavar="ACTION", title="actions")

    listing = add(actions, "list", "configuration.mcp_configured", "list the servers whose tools the model is offered here")
    listing.set_defaults(action="list")
    add_json(listing)
    add_overrides(listing, keep=True)

    adding = add(
        actions,
        "add",
        "configuration.mcp_configured",
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

    removing = add(actions, "remove", "configuration.mcp_configured", "remove servers from config.toml")
    removing.set_defaults(action="remove")
    removing.add_argument("names", nargs="+", metavar="NAME", help=NAME)

    entering = add(
        actions,
        "login",
        "configuration.mcp_login",
        "log in to a server that is an address, in a browser (OAuth)",
        more="What the server gives is kept in understudy/mcp_credentials.json in CODEX_HOME, and renewed when it expires.",
    )
    entering.set_defaults(action="login")
    entering.add_argument("name", metavar="NAME", help=NAME)
    entering.add_argument(
        "--client-id", metavar="ID", help="of a client that you have registered there (default: it registers itself)"
    )
    entering.add_argument("--port", type=count, default=0, metavar="N", help="where the browser comes back to (default: any)")
    entering.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    add_overrides(entering, keep=True)
    leaving = add(actions, "logout", "configuration.mcp_login", "forget what a login to a server has given")
    leaving.set_defaults(action="logout")
    leaving.add_argument("name", metavar="NAME", help=NAME)
    add_overrides(leaving, keep=True)

    testing = add(
        actions,
        "test",
        "configuration.mcp_test",
        "start servers as a conversation here would, and list their tools",
        more="Without names, all enabled servers are started. Exit code 1 if one does not work.",
    )
    testing.add_argument("names", nargs="*", metavar="NAME", help=NAME)
    add_json(testing)
    add_overrides(testing, keep=True)
