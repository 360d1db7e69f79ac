"""The commands, their arguments, and the options that may come before them.

Each command's work is in its own module, imported only when it is called.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence

import msgspec

from understudy.cli.arguments.adding import CommandParsers, add, add_json, add_overrides
from understudy.cli.arguments.config import MCP_ACTIONS, add_bench, add_config, add_keys, add_mcp, add_models
from understudy.cli.arguments.conversations import (
    add_chat,
    add_conversations,
    add_questions,
    add_search,
    add_store,
    add_transfer,
    add_verify,
)
from understudy.cli.arguments.running import add_hooks, add_policy, add_running
from understudy.cli.arguments.serving import add_acp, add_app_server, add_http, add_workers
from understudy.cli.ending import INTERRUPTED, explain
from understudy.cli.exec.options import ACTIONS, OPTIONS, Option, is_exec, options_of
from understudy.cli.parsing import Parser, program_name, version_text, wrong_usage
from understudy.cli.streams import prepare_streams, silence
from understudy.config.home import page_path
from understudy.errors import AgentError
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES

EXEC_WORDS = frozenset({"exec", "e", "review"})


class _Root(msgspec.Struct, frozen=True):
    name: str  # its name in `exec` and in our messages
    takes_value: bool = True
    key: str | None = None  # the key of the configuration that it sets
    choices: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # settings that it implies
    for_exec: bool = True  # `exec` has it, too


_CONFIG, _FOLDER = _Root("--config"), _Root("--cd")
_OPTIONS = {
    ("-c", "--config"): _CONFIG,
    ("-C", "--cd"): _FOLDER,
    ("-m", "--model"): _Root("--model", key="model"),
    ("-s", "--sandbox"): _Root("--sandbox", key="sandbox_mode", choices=SANDBOX_MODES),
    ("-a", "--ask-for-approval"): _Root("--ask-for-approval", key="approval_policy", choices=APPROVAL_POLICIES),
    ("-p", "--profile"): _Root("--profile", key="profile"),
    ("--oss",): _Root("--oss", takes_value=False, sets=('model_provider="oss"',)),
    ("--local-provider",): _Root("--local-provider", key="model_provider", choices=("ollama", "lmstudio"), for_exec=False),
    ("--full-auto",): _Root(
        "--full-auto", takes_value=False, sets=('approval_policy="on-failure"', 'sandbox_mode="workspace-write"')
    ),
    ("--dangerously-bypass-approvals-and-sandbox", "--yolo"): _Root(
        "--yolo", takes_value=False, sets=('approval_policy="never"', 'sandbox_mode="danger-full-access"')
    ),
    ("-i", "--image"): _Root("--image"),
    ("--add-dir",): _Root("--add-dir"),
    ("--enable",): _Root("--enable"),
    ("--disable",): _Root("--disable"),
    ("--strict-config",): _Root("--strict-config", takes_value=False),
    ("--search",): _Root("--search", takes_value=False, for_exec=False),
    ("--approve-for-me",): _Root("--approve-for-me", takes_value=False, for_exec=False),
    ("--dangerously-bypass-hook-trust",): _Root("--dangerously-bypass-hook-trust", takes_value=False, for_exec=False),
    ("--no-alt-screen",): _Root("--no-alt-screen", takes_value=False, for_exec=False),
    ("--no-daemon",): _Root("--no-daemon", takes_value=False, for_exec=False),
}
_BY_NAME = {name: option for names, option in _OPTIONS.items() for name in names}


def command_at(words: Sequence[str]) -> int:
    """Index of the command; the number of words if there is none, or if something before it is not such an option."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, value = _split(words[at])
        option = _BY_NAME.get(name)
        if option is None:
            return len(words)
        at += 2 if option.takes_value and value is None else 1
    return min(at, len(words))


def place_behind(words: list[str], takes_settings: Callable[[str], bool]) -> list[str]:
    """Moves the command to the front. `takes_settings`: whether a command uses the configuration."""
    at = command_at(words)
    if at == 0 or at == len(words):
        return words
    command = words[at]
    given = list(_read(words[:at]))
    moved = _for_exec(given) if command in EXEC_WORDS else _as_settings(given, command, uses=takes_settings(command))
    return [command, *moved, *words[at + 1 :]]


def _read(words: Sequence[str]) -> list[tuple[_Root, str]]:
    given: list[tuple[_Root, str]] = []
    rest = iter(words)
    for word in rest:
        name, value = _split(word)
        option = _BY_NAME[name]
        if not option.takes_value and value is not None:
            wrong_usage(f"`{name}` takes no value")
        if option.takes_value and value is None:
            value = next(rest)
        if option.choices and value not in option.choices:
            wrong_usage(f"`{value}` is no value for `{name}`; it can be {', '.join(option.choices)}")
        given.append((option, value or ""))
    return given


def _for_exec(given: Sequence[tuple[_Root, str]]) -> list[str]:
    moved: list[str] = []
    for option, value in given:
        if option.for_exec:
            moved += [option.name, value] if option.takes_value else [option.name]
        elif option.key is not None:
            moved += ["--config", _setting(option.key, value)]
        else:
            _without_effect(option)
    return moved


def _as_settings(given: Sequence[tuple[_Root, str]], command: str, *, uses: bool) -> list[str]:
    """An option for one key overrides what another option implies."""
    written = [value for option, value in given if option is _CONFIG]
    brought: list[str] = []
    chosen: list[str] = []
    for option, value in given:
        if option is _FOLDER:
            _enter(value)
        elif option.sets:
            brought += option.sets
        elif option.key is not None:
            chosen.append(_setting(option.key, value))
        elif option is not _CONFIG and uses:
            _without_effect(option)
    if not uses:
        return []
    return [word for setting in (*written, *brought, *chosen) for word in ("--config", setting)]


def _setting(key: str, value: str) -> str:
    return f"{key}={json.dumps(value)}"


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:
        wrong_usage(f"`-C {folder}` cannot be used: {error.strerror if isinstance(error, OSError) else error}")


def _without_effect(option: _Root) -> None:
    more = "; set `sandbox_workspace_write.writable_roots`" if option.name == "--add-dir" else ""
    sys.stderr.write(f"understudy: {option.name} has no effect here{more}\n")


def _split(word: str) -> tuple[str, str | None]:
    """Splits options as `exec` does: `--name=value`, `-nvalue`, `-n=value`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], (word[2:].removeprefix("=") if len(word) > 2 else None)


TAKES_COMMAND = (["sandbox"], ["policy", "check"], ["mcp", "add"])  # words after `--` belong to another program

GROUPS = {
    "work with the agent": ("chat", "exec", "review", "resume", "demo"),
    "serve programs, editors and people": ("mcp-server", "app-server", "acp", "proto", "serve", "open", "token", "workers"),
    "conversations": (
        "conversations",
        "top",
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
    """Parse and run. Returns the exit code: 0, 1 for a failure, 2 for wrong usage."""
    if not _serves(words):  # for servers, a closed stream is an error
        prepare_streams()
    try:
        try:
            return _carry_out(list(words))
        finally:
            if sys.stdout is not None and not sys.stdout.closed:  # pyright: ignore[reportUnnecessaryComparison]  # none at all: `>&-`
                sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written, not even at exit
        silence(1)
        return 0
    except KeyboardInterrupt:
        if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
            print(file=sys.stderr)  # the terminal has echoed `^C` in the middle of a line
        return INTERRUPTED
    except (OSError, UnicodeEncodeError) as error:  # a disk, folder or stream failed in a way that concerns every command
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
    if words[:1] == ["version"]:
        if len(words) > 1:
            wrong_usage("`version` takes no arguments")
        words = ["--version"]
    if words[command_at(words) :][:1] and words[command_at(words)] in EXEC_WORDS:
        words = place_behind(words, lambda _: True)
    if is_exec(words):
        from understudy.cli.exec.command import run as run_exec

        return run_exec(words)
    parser = build_parser()
    ours, theirs = _split_rest(place_behind(words, lambda name: "--config" in parser.options_of(name)))
    parser.refuse_misspelt_options(ours)
    options = parser.read(ours)
    if not words:
        from understudy.cli.greeting import at_terminal, offer_chat

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
    from understudy.text import strip_terminal_escapes

    print(f"understudy: {strip_terminal_escapes(text)}", file=sys.stderr)  # it may contain text from others
    return 1


def _split_rest(words: list[str]) -> tuple[list[str], list[str] | None]:
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
    add_workers(commands)
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
    """For the list of commands and for completion; `exec_options` parses the words."""
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
        "serving.stdio:run_mcp_server",
        "serve MCP on standard input and output",
        more=f"Clients start it; {page_path('clients.md')} says how.",
    )
    add_overrides(server)
    demo = add(commands, "demo", "demo.command", "show the whole thing with no key and no network")
    demo.add_argument("--ask", action="store_true", help="answer the approval questions yourself")
    demo.add_argument("--wire", action="store_true", help="also show what goes over the wire, one line per message")


def _add_state(commands: CommandParsers) -> None:
    doctor = add(
        commands, "doctor", "doctor.command", "say what works here and what does not", more="Exit code 1 if something is broken."
    )
    add_json(doctor)
    doctor.add_argument("--online", action="store_true", help="also ask the model for one word, with the key")
    doctor.add_argument(
        "--files", action="store_true", help="only list the files on disk that say how to work, whether each counts, and why not"
    )
    doctor.add_argument("--full", action="store_true", help="read every record of the store, even if there are very many")
    add_overrides(doctor)
    backup = add(
        commands, "backup", "conversations.whole_store:run_backup", "copy the store of conversations, even while it is in use"
    )
    backup.add_argument("file", metavar="FILE", help="the copy, which must not exist yet; - for standard output")
    completion = add(commands, "completion", "completion", "print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"), metavar="SHELL", help="bash, zsh, fish or tcsh")
