"""The commands and their arguments. Each command's work is in its own module, imported only when it is called."""

import argparse
import sys
from collections.abc import Sequence

from understudy.cli.arguments.acp import add_acp
from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides
from understudy.cli.arguments.app_server import add_app_server
from understudy.cli.arguments.chat import add_chat
from understudy.cli.arguments.config import add_config
from understudy.cli.arguments.conversations import add_conversations, add_search, add_transfer
from understudy.cli.arguments.hooks import add_hooks
from understudy.cli.arguments.mcp import MCP_ACTIONS, add_mcp
from understudy.cli.arguments.models import add_bench, add_keys, add_models
from understudy.cli.arguments.questions import add_questions
from understudy.cli.arguments.running import add_policy, add_running
from understudy.cli.arguments.serving import add_http
from understudy.cli.arguments.storing import add_store
from understudy.cli.arguments.verifying import add_verify
from understudy.cli.ending import INTERRUPTED
from understudy.cli.exec_options import ACTIONS, OPTIONS, Option, is_exec, options_of
from understudy.cli.naming import program_name, version_text
from understudy.cli.parsing import Parser
from understudy.cli.root_options import EXEC_WORDS, command_at, place_behind
from understudy.cli.streams import prepare_streams, silence
from understudy.config.pages import page_path
from understudy.errors import AgentError

TAKES_COMMAND = (["sandbox"], ["policy", "check"], ["mcp", "add"])  # what stands after `--` is another program's

GROUPS = {
    "work with the agent": ("chat", "exec", "review", "resume", "demo"),
    "serve programs, editors and people": ("mcp-server", "app-server", "acp", "proto", "serve", "open", "token"),
    "conversations": (
        "conversations",
        "show",
        "search",
        "approvals",
        "rename",
        "compact",
        "undo",
        "export",
        "import",
        "verify",
        "backup",
        "store",
    ),
    "what may run": ("policy", "trust", "hooks", "sandbox", "apply-patch"),
    "set up": ("login", "logout", "model", "mcp", "config", "doctor", "bench-agent", "completion"),
}
DESCRIPTION = "A coding agent that other programs call over MCP."
EPILOG = (
    "`understudy COMMAND --help` lists the options of a command. Ids of conversations may be shortened as long as they are unique."
)


def run(words: Sequence[str]) -> int:
    """Parse and carry out. The exit code: 0, 1 for a failure, 2 for a call that makes no sense."""
    if not _serves(words):  # for which a stream that is closed is an error
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
    except (OSError, UnicodeEncodeError) as error:  # the disk, a folder or a stream does not do what any command needs
        from understudy.cli.system_failures import explain

        silence(1)
        return _complain(explain(error, words))


def _serves(words: Sequence[str]) -> bool:
    words = words[command_at(words) :]
    if list(words[:1]) == ["mcp"]:
        return not any(word in MCP_ACTIONS for word in words[1:])
    return list(words[:1]) in (["mcp-server"], ["app-server"], ["proto"], ["acp"])


def _carry_out(words: list[str]) -> int:
    if words[:1] == ["help"]:
        if len(words) > 1 and not words[1].startswith("-") and words[1] not in build_parser().commands():
            from understudy.cli.help_pages import show_topic

            return show_topic(" ".join(words[1:]))
        words = [*words[1:], "--help"]
    if words == ["version"]:
        words = ["--version"]
    if words[command_at(words) :][:1] and words[command_at(words)] in EXEC_WORDS:
        words = place_behind(words, lambda _: True)
    if is_exec(words):
        from understudy.cli.exec import run as run_exec

        return run_exec(words)
    parser = build_parser()
    ours, theirs = _split(place_behind(words, lambda name: "--config" in parser.options_of(name)))
    parser.refuse_misspelt_options(ours)
    options = parser.read(ours)
    if not words:
        from understudy.cli.offering import at_terminal, offer_chat

        if at_terminal():
            return offer_chat(lambda: _carry_out(["chat"]))
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


def build_parser() -> Parser:
    parser = Parser(prog=program_name(), description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("-V", "--version", action="version", version=version_text())
    parser.set_defaults(act=None, help_of=parser)
    parser.groups = GROUPS
    commands: CommandParsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_chat(commands)
    _add_exec(commands)
    _add_serving(commands)
    add_app_server(commands)
    add_acp(commands)
    add_mcp(commands)
    add_http(commands)
    add_conversations(commands)
    add_search(commands)
    add_questions(commands)
    add_transfer(commands)
    add_verify(commands)
    add_store(commands)
    add_running(commands)
    add_policy(commands)
    add_hooks(commands)
    add_models(commands)
    add_bench(commands)
    add_keys(commands)
    add_config(commands)
    _add_state(commands)
    return parser


def _add_exec(commands: CommandParsers) -> None:
    """For the list of commands and for completion; `exec_options` reads the words."""
    exec_ = commands.add_parser("exec", help="give the agent one task, and get its answer", description="", aliases=["e"])
    _add_exec_options(exec_, OPTIONS)
    exec_.add_argument("words", nargs="*", choices=[*ACTIONS, "PROMPT"], help="what to do, or which conversation to continue")
    exec_.set_defaults(act=None, help_of=exec_)
    review = commands.add_parser("review", help="have a model look at changes, and report what is wrong with them", description="")
    _add_exec_options(review, options_of("review"))
    review.add_argument("words", nargs="*", metavar="PROMPT", help="what to look at in particular")
    review.set_defaults(act=None, help_of=review)


def _add_exec_options(exec_: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    for option in options:
        if option.field == "help" or option.hidden:
            continue
        names = [name for name in option.names if name != "--experimental-json"]
        if option.kind == "flag":
            exec_.add_argument(*names, action="store_true", help=option.help)
        else:
            choices = option.choices or None
            exec_.add_argument(*names, metavar=None if choices else option.metavar, choices=choices, help=option.help)


def _add_serving(commands: CommandParsers) -> None:
    server = add(
        commands,
        "mcp-server",
        "mcp_server",
        "serve MCP on standard input and output",
        more=f"Clients start it; {page_path('clients.md')} says how.",
    )
    add_overrides(server)
    demo = add(commands, "demo", "demo.command", "show the whole thing with no key and no network")
    demo.add_argument("--ask", action="store_true", help="answer the approval questions yourself")
    demo.add_argument("--wire", action="store_true", help="also show what goes over the wire, one line per message")


def _add_state(commands: CommandParsers) -> None:
    doctor = add(commands, "doctor", "doctor", "say what works here and what does not", more="Exit code 1 if something is broken.")
    add_json(doctor)
    doctor.add_argument("--online", action="store_true", help="also ask the model for one word, with the key")
    doctor.add_argument("--full", action="store_true", help="read every record of the store, even if there are very many")
    add_overrides(doctor)
    backup = add(commands, "backup", "backup", "copy the store of conversations, even while it is in use")
    backup.add_argument("file", metavar="FILE", help="the copy, which must not exist yet; - for standard output")
    completion = add(commands, "completion", "completion", "print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"), metavar="SHELL", help="bash, zsh, fish or tcsh")
