"""Commands about models, their keys and how well they do."""

import argparse

from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides, positive
from understudy.cli.parsing import Parser
from understudy.config.pages import page_path

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
        "model_list",
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
        "bench_agent",
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
        "login",
        "store an API key for a provider",
        more="You are asked for it, or it is read from standard input. A key in the environment takes precedence.",
    )
    login.set_defaults(action="login")
    if isinstance(login, Parser):
        login.about_other_words = KEY_IN_ARGUMENTS
    login.add_argument("--provider", metavar="NAME", help="whose key it is (default: the provider that is configured)")
    login.add_argument("--with-api-key", action="store_true", help="read the key from standard input, even at a terminal")
    login.add_argument("--api-key", metavar="KEY", help=argparse.SUPPRESS)  # upstream's old way; refused with the reason
    actions: CommandParsers = login.add_subparsers(metavar="ACTION", title="actions")
    status = add(
        actions, "status", "login", "say which providers have a key, and where it comes from", more="Exit code 1 if there is none."
    )
    status.set_defaults(action="status")
    logout = add(commands, "logout", "login", "remove a key that login stored")
    logout.set_defaults(action="logout")
    logout.add_argument("--provider", metavar="NAME", help="whose key (default: the only one)")
    logout.add_argument("--all", action="store_true", help="every key")
