"""The commands and their arguments. Each command's work is in its own module, imported only when it is called."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from understudy.cli.ending import INTERRUPTED
from understudy.cli.exec_options import ACTIONS, OPTIONS, is_exec
from understudy.cli.naming import program_name, version_text
from understudy.cli.parsing import Parser
from understudy.cli.streams import prepare_streams, silence
from understudy.errors import AgentError
from understudy.protocol.choices import NETWORK_MODES, SANDBOX_MODES

TAKES_COMMAND = (["sandbox"], ["policy", "check"])  # what stands after `--` is another program's

DESCRIPTION = "A coding agent that other programs call over MCP."
EPILOG = "Ids of conversations may be shortened as long as they are unique. `understudy COMMAND --help` says more."

ID = "a conversation's id, or its first characters"


def run(words: Sequence[str]) -> int:
    """Parse and carry out. The exit code: 0, 1 for a failure, 2 for a call that makes no sense."""
    if list(words[:1]) not in (["mcp-server"], ["mcp"]):  # for which a stream that is closed is an error
        prepare_streams()
    try:
        try:
            return _carry_out(list(words))
        finally:
            if sys.stdout is not None and not sys.stdout.closed:  # pyright: ignore[reportUnnecessaryComparison]  # none at all: `>&-`
                sys.stdout.flush()
    except BrokenPipeError:  # whoever read us has seen enough; nothing more may be written, at exit either
        silence(1)
        return 0
    except KeyboardInterrupt:
        if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
            print(file=sys.stderr)  # the terminal has echoed `^C` in the middle of a line
        return INTERRUPTED
    except OSError as error:  # the disk, a folder or a stream does not do what any command needs
        silence(1)
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))


def _carry_out(words: list[str]) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if is_exec(words):
        from understudy.cli.exec import run as run_exec

        return run_exec(words)
    ours, theirs = _split(words)
    parser = build_parser()
    parser.refuse_misspelt_options(ours)
    options = parser.parse_args(ours)
    if options.act is None:
        options.help_of.print_help(sys.stderr)
        return 2
    if theirs is not None:
        options.argv = theirs
    try:
        return options.act(options)
    except AgentError as error:
        return _complain(str(error))


def _complain(text: str) -> int:
    from understudy.policy.visible import strip_terminal_escapes

    print(f"understudy: {strip_terminal_escapes(text)}", file=sys.stderr)  # it may repeat what others wrote
    return 1


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" in words and any(words[: len(start)] == start for start in TAKES_COMMAND):
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return words, None


class Commands(Protocol):
    def add_parser(self, name: str, *, help: str, description: str, aliases: Sequence[str] = ()) -> argparse.ArgumentParser: ...  # noqa: A002


def build_parser() -> Parser:
    parser = Parser(prog=program_name(), description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=version_text())
    parser.set_defaults(act=None, help_of=parser)
    commands: Commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_exec(commands)
    _add_serving(commands)
    _add_conversations(commands)
    _add_transfer(commands)
    _add_running(commands)
    _add_policy(commands)
    _add_models(commands)
    _add_bench(commands)
    _add_keys(commands)
    _add_state(commands)
    return parser


def _add(
    commands: Commands, name: str, module: str, about: str, *, more: str = "", aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}. {more}".strip(), aliases=aliases)

    def act(options: argparse.Namespace) -> int:
        return import_module(f"understudy.cli.{module}").run(options)

    parser.set_defaults(act=act)
    return parser


def _add_exec(commands: Commands) -> None:
    """For the list of commands and for completion; `exec_options` reads the words."""
    exec_ = commands.add_parser("exec", help="give the agent one task, and get its answer", description="", aliases=["e"])
    for option in OPTIONS:
        if option.field == "help" or option.hidden:
            continue
        names = [name for name in option.names if name != "--experimental-json"]
        if option.kind == "flag":
            exec_.add_argument(*names, action="store_true", help=option.help)
        else:
            choices = option.choices or None
            exec_.add_argument(*names, metavar=None if choices else option.metavar, choices=choices, help=option.help)
    exec_.add_argument("words", nargs="*", choices=[*ACTIONS, "PROMPT"], help="what to do, or which conversation to go on with")
    exec_.set_defaults(act=None, help_of=exec_)


def _add_serving(commands: Commands) -> None:
    server = _add(
        commands,
        "mcp-server",
        "mcp_server",
        "serve MCP on standard input and output",
        more="Clients start it; docs/clients.md says how.",
        aliases=["mcp"],
    )
    _overrides(server)
    demo = _add(commands, "demo", "demo.command", "show the whole thing with no key and no network")
    demo.add_argument("--ask", action="store_true", help="answer the approval questions yourself")
    demo.add_argument("--wire", action="store_true", help="also show what goes over the wire, a line per message")


def _add_conversations(commands: Commands) -> None:
    listing = _add(commands, "conversations", "conversations", "list conversations, the last active first")
    _json(listing)
    listing.add_argument("--archived", action="store_true", help="list the archived ones instead")
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="list at most N (default: 50; 0 lists all)")
    actions: Commands = listing.add_subparsers(metavar="ACTION", title="actions")
    for name, about in (
        ("delete", "delete conversations for good"),
        ("archive", "take conversations out of the list"),
        ("unarchive", "put conversations back into the list"),
    ):
        action = _add(actions, name, "conversations", about)
        action.set_defaults(action=name)
        action.add_argument("ids", nargs="+", metavar="ID", help=ID)
        if name == "delete":
            action.add_argument("-y", "--yes", action="store_true", help="do not ask first")
    listing.set_defaults(action="list")

    show = _add(commands, "show", "show", "print a conversation for reading")
    show.add_argument("id", metavar="ID", help=ID)
    _json(show, "every event on a line, with its sequence number")
    show.add_argument("--full", action="store_true", help="all lines of output and diffs, not just the first")

    resume = _add(commands, "resume", "resume", "continue a conversation in this terminal", more="Ctrl-C interrupts the turn.")
    resume.add_argument("id", metavar="ID", help=ID)
    resume.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT",
        help="what to say; - reads it from standard input; without one, a turn that waits for an answer goes on",
    )
    resume.add_argument("-m", "--model", help="continue with this model")
    _json(resume, "every event on a line as it comes")
    _overrides(resume, "set a key of config.toml for this conversation, from here on")


def _add_transfer(commands: Commands) -> None:
    export = _add(commands, "export", "transfer", "write a conversation to one file of JSON lines")
    export.set_defaults(action="export")
    export.add_argument("id", metavar="ID", help=ID)
    export.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")

    import_ = _add(
        commands,
        "import",
        "transfer",
        "import conversations from files",
        more="Takes files of `understudy export` and session files (rollout-….jsonl) of codex, old and new.",
    )
    import_.set_defaults(action="import")
    import_.add_argument("files", nargs="+", metavar="FILE", help="one file for each conversation; - for standard input")
    import_.add_argument("--new-id", action="store_true", help="import under a new id, beside the one that is there")
    import_.add_argument("--cwd", metavar="DIR", help="the folder it belongs to, if the file names none or that one is gone")
    import_.add_argument(
        "--keep-settings",
        action="store_true",
        help="keep its sandbox, approval policy, config keys and session approvals too; only for files of your own",
    )
    _json(import_, "each new conversation as a JSON object")


def _add_running(commands: Commands) -> None:
    sandbox = _add(commands, "sandbox", "sandbox", "run a command exactly as the agent's shell tool would")
    sandbox.add_argument("--mode", choices=SANDBOX_MODES, help="what it may write (default: as configured for the folder)")
    sandbox.add_argument("--cwd", metavar="DIR", help="where it runs (default: here)")
    sandbox.add_argument(
        "--writable", action="append", default=[], metavar="DIR", help="another folder to write to; may be given again"
    )
    sandbox.add_argument("--network", choices=NETWORK_MODES, help="what it may reach (default: as configured, else off)")
    sandbox.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end it after this time (default: no limit)")
    _overrides(sandbox)
    _command(sandbox)

    _add(commands, "apply-patch", "patch", "apply a patch from standard input to the files here")


def _add_policy(commands: Commands) -> None:
    policy = commands.add_parser("policy", help="ask what the rules say", description="Ask what the rules say.")
    policy.set_defaults(act=None, help_of=policy)
    actions: Commands = policy.add_subparsers(metavar="ACTION", title="actions")
    check = _add(actions, "check", "policy", "say what would be decided about a command, and by which rule")
    check.set_defaults(action="check")
    check.add_argument("--escalated", action="store_true", help="as if the model asked to leave the sandbox")
    check.add_argument("--cwd", metavar="DIR", help="where it would run (default: here)")
    _json(check)
    _overrides(check)
    _command(check)
    test = _add(actions, "test", "policy", "try the cases of a file against the rules", more="Exit code 1 if one does not hold.")
    test.set_defaults(action="test")
    test.add_argument("file", metavar="FILE", help="TOML with cases; docs/policy.md shows one")
    _overrides(test)

    trust = _add(commands, "trust", "trust", "let a folder's own .codex/config.toml count, as it is now")
    trust.add_argument("folder", nargs="?", metavar="DIR", help="the folder to trust")
    trust.add_argument("--list", action="store_true", help="list the trusted folders")
    trust.add_argument("--remove", action="store_true", help="stop trusting DIR")


def _add_models(commands: Commands) -> None:
    model = commands.add_parser("model", help="look at models", description="Look at models.")
    model.set_defaults(act=None, help_of=model)
    actions: Commands = model.add_subparsers(metavar="ACTION", title="actions")
    listing = _add(
        actions,
        "list",
        "model_list",
        "list a provider's models and what is known of each",
        more="The provider is asked; where it cannot be, the models that understudy knows of itself are listed.",
    )
    listing.add_argument("--provider", metavar="NAME", help="of this provider (default: the one that is configured)")
    listing.add_argument("--offline", action="store_true", help="do not ask the provider")
    listing.add_argument("--all", action="store_true", help="also models that are not for conversations")
    _json(listing)
    _overrides(listing)


def _add_bench(commands: Commands) -> None:
    bench = _add(
        commands,
        "bench-agent",
        "bench_agent",
        "let an agent solve a folder of tasks, and judge it by hidden tests",
        more="Asks the configured model, which may cost money; docs/bench-agent.md has the format of a task.",
    )
    bench.add_argument("-m", "--model", help="the model to ask (default: as configured)")
    bench.add_argument("--tasks", metavar="DIR", help="the folder of tasks (default: those that understudy brings)")
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
    bench.add_argument("--repetitions", type=_positive, default=1, metavar="N", help="try each task N times (default: 1)")
    bench.add_argument("--jobs", type=_positive, default=1, metavar="N", help="run N at once (default: 1)")
    bench.add_argument("--json", metavar="FILE", help="write results to FILE; what is in it already is not run again")
    bench.add_argument("--keep", metavar="DIR", help="keep the folder of each run here")
    _overrides(bench)


def _add_keys(commands: Commands) -> None:
    login = _add(
        commands,
        "login",
        "login",
        "keep an API key for a provider",
        more="It is asked for, or read from standard input. A key in the environment comes first.",
    )
    login.set_defaults(action="login")
    login.add_argument("--provider", metavar="NAME", help="whose key it is (default: the provider that is configured)")
    login.add_argument("--with-api-key", action="store_true", help="read the key from standard input, at a terminal too")
    login.add_argument("--api-key", metavar="KEY", help=argparse.SUPPRESS)  # upstream's old way; refused with the reason
    actions: Commands = login.add_subparsers(metavar="ACTION", title="actions")
    status = _add(actions, "status", "login", "say which providers have a key, and from where", more="Exit code 1 if none has.")
    status.set_defaults(action="status")
    logout = _add(commands, "logout", "login", "forget a key that login keeps")
    logout.set_defaults(action="logout")
    logout.add_argument("--provider", metavar="NAME", help="whose key (default: the only one)")
    logout.add_argument("--all", action="store_true", help="every key")


def _add_state(commands: Commands) -> None:
    doctor = _add(commands, "doctor", "doctor", "say what works here and what does not", more="Exit code 1 if something is broken.")
    _json(doctor)
    doctor.add_argument("--online", action="store_true", help="ask the model for one word, with the key")
    doctor.add_argument("--full", action="store_true", help="read every record of the store, however many there are")
    _overrides(doctor)
    backup = _add(commands, "backup", "backup", "copy the store of conversations, even while it is in use")
    backup.add_argument("file", metavar="FILE", help="the copy, which must not exist yet; - for standard output")
    completion = _add(commands, "completion", "completion", "print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"), metavar="SHELL", help="bash, zsh, fish or tcsh")


def _json(parser: argparse.ArgumentParser, about: str = "as JSON") -> None:
    parser.add_argument("--json", action="store_true", help=about)


def _overrides(parser: argparse.ArgumentParser, about: str = "set a key of config.toml") -> None:
    parser.add_argument(
        "-c",
        "--config",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"{about}; dotted keys reach into tables, values are TOML",
    )


def _command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD …")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, zero or more")
    return int(text)


def _positive(text: str) -> int:
    count = _count(text)
    if count == 0:
        raise argparse.ArgumentTypeError("0 is too few: at least 1 is needed")
    return count


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return seconds
