# ruff: noqa: E501  # what it says are sentences
"""Writes docs/errors.md from the messages in the code: every one that somebody can meet, under its cause and its remedy.

Run it as `python docs/generate_errors.py`. A message that no group below has fails a test. The page may be a few messages behind, so that
not every change of a word changes it.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "understudy"
PAGE = ROOT / "docs" / "errors.md"
sys.path.insert(0, str(ROOT / "src"))

from understudy import errors  # noqa: E402

# What is raised or called with a message for somebody, beside the kinds of `errors.py`.
OTHERS = (
    *("Refusal", "Refused", "Conflict", "NotThere", "InvalidRequest", "InvalidParams", "MethodNotFound"),
    *("UnderstudyError", "Mismatch", "Unreachable", "wrong_usage", "BrokenFrames"),
)
FEWEST_WORDS = 2  # that are the message's own: `…: …` says nothing to look for


@dataclass(frozen=True)
class Message:
    kind: str
    text: str  # `…` where something is filled in
    place: str  # the module below src/understudy


@dataclass(frozen=True)
class Group:
    title: str
    cause: str
    remedy: str
    kinds: tuple[str, ...] = ()  # all, where none is named
    places: tuple[str, ...] = ()  # beginnings; everywhere, where none is named
    messages: list[Message] = field(default_factory=list[Message])

    def has(self, message: Message) -> bool:
        kind = not self.kinds or message.kind in self.kinds
        return kind and (not self.places or message.place.startswith(self.places))


def kinds() -> frozenset[str]:
    """Of all errors that are raised on purpose."""
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.AgentError)]
    return frozenset(each.__name__ for each in found) | frozenset(OTHERS)


def messages() -> list[Message]:
    known = kinds()
    found = {message for path in sorted(SOURCES.rglob("*.py")) for message in _in_module(path, known)}
    return sorted(found, key=lambda each: (each.text.lower(), each.kind, each.place))


def _in_module(path: Path, known: frozenset[str]) -> Iterator[Message]:
    place = path.relative_to(SOURCES).as_posix()
    if place.startswith("testing/"):  # for those who test, at their own desk
        return
    module = ast.parse(path.read_text())
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name not in known:
            continue
        texts = [_text(argument) for argument in node.args] + [
            text for argument in node.args for text in _made_elsewhere(module, argument)
        ]
        for text in {" ".join(text.split()) for text in texts}:
            if sum(any(map(str.isalpha, word)) for word in text.replace("…", " ").split()) >= FEWEST_WORDS:
                yield Message(name, text, place)


def _made_elsewhere(module: ast.Module, argument: ast.expr) -> Iterator[str]:
    """What a name was given, or what a function of the module returns."""
    match argument:
        case ast.Name(id=name):
            for node in ast.walk(module):
                if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets):
                    yield _text(node.value)
        case ast.Call(func=ast.Name(id=name)):
            for node in ast.walk(module):
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    yield from (
                        _text(each.value) for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None
                    )
        case _:
            pass


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value) if isinstance(value, ast.Constant) else "…" for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_text(left) or "…") + (_text(right) or "…")
        case ast.IfExp(body=body, orelse=orelse):
            return max(_text(body), _text(orelse), key=len)
        case _:
            return ""


def grouped() -> tuple[list[Group], list[Message]]:
    """The groups with their messages, and those that belong to none."""
    groups, left = list(all_groups()), list[Message]()
    for message in messages():
        group = next((each for each in groups if each.has(message)), None)
        (left if group is None else group.messages).append(message)
    return groups, left


def all_groups() -> Iterator[Group]:
    """The first that fits has the message."""
    yield Group(
        "A recorded or scripted model has no answer",
        "the file of answers is wrong, is used up, or what is asked differs from what was recorded",
        "correct the file ([scripted-model.md](scripted-model.md)), or record anew ([record-and-replay.md](record-and-replay.md))",
        places=("models/scripted", "models/record", "models/replay"),
    )
    yield Group(
        "The key is missing",
        "no key was found for the provider that `model_provider` names",
        "set the variable that the message names, where the *server* is started (a client's configuration has `env`), or run "
        "`understudy login`; `understudy doctor` says where it looked",
        ("MissingKey",),
    )
    yield Group(
        "The context is full",
        "what was said and read does not fit into the model's window, and compaction could not make room",
        "`understudy compact ID`, a model with a larger window, or a new conversation; a single file or image may simply be too large",
        ("ContextFull",),
    )
    yield Group(
        "The provider refuses",
        "the provider answered that it will not do this: the model, the key, the account or the content is wrong for it",
        "read what the provider says behind the colon; check `model` and `base_url` ([models.md](models.md)), the key, and your account "
        "there. It is not tried again",
        ("ModelRefused", "ImagesRefused"),
        ("models/", "engine/"),
    )
    yield Group(
        "The provider cannot be reached, or breaks off",
        "the network, a proxy, a certificate or the provider itself; it was tried several times",
        "try again; look at `HTTPS_PROXY` and `NO_PROXY` in the server's environment and at the provider's status page; "
        "`understudy doctor --online` asks for one word",
        ("StreamLost", "ModelUnavailable", "ModelError", "Unreachable"),
    )
    yield Group(
        "The providers' settings",
        "the configuration names a provider, a model or a price in a way that cannot be used",
        "correct the key that the message names: [models.md](models.md), [configuration.md](configuration.md)",
        places=("models/",),
    )
    yield Group(
        "A budget is used up",
        "tokens, cost, time or requests reached the limit of the call, the conversation or the person",
        "answer the question whether more may be used, raise the limit ([configuration.md](configuration.md#budgets)), or wait for the next "
        "day, week or month of a token's own budget ([serve.md](serve.md#who-may-call))",
        ("BudgetReached", "BudgetSpent", "OutOfTime"),
    )
    yield Group(
        "A server of tools is missing",
        "an MCP server that is `required` did not start in time",
        "`understudy mcp test` starts it as a conversation would, and says what is wrong",
        ("ServersMissing",),
    )
    yield Group(
        "The answer has not the form that was asked for",
        "the model's last answer does not fit to the schema, after it was told so",
        "make the schema simpler, or ask again; the answer stands in the conversation",
        ("AnswerMisfit",),
    )
    yield Group(
        "A turn was stopped",
        "the turn ended before its work was done, for the reason that is given",
        "remove the reason, and send another message: the conversation has what was done",
        ("TurnStopped",),
    )
    yield Group(
        "There is no such conversation",
        "the id is wrong or not unique, the conversation was deleted, is of another `CODEX_HOME`, or you may not see it",
        "`understudy conversations` (with `--archived`) lists what there is; at a server, whose it is decides who sees it",
        ("UnknownConversation",),
    )
    yield Group(
        "Not allowed",
        "your token lacks a right, a folder, a sandbox mode or a setting, or has too much at work",
        "ask whoever runs the server for a token that may do it ([serve.md](serve.md#who-may-call)), or wait until something has ended",
        ("NotAllowed", "LacksRight", "TooManyTurns"),
    )
    yield Group(
        "Somebody else has the conversation",
        "another process or another machine runs a turn of it, or has taken it over",
        "wait for that turn or interrupt it; what you send to a running turn joins it. On several machines see "
        "[many-machines.md](many-machines.md)",
        ("ConversationBusy", "StandsElsewhere", "Fenced", "HostAway"),
    )
    yield Group(
        "Workspaces that are made from a repository",
        "the repository or the snapshots cannot be reached, are not what was named, or take too long or too much room",
        "read what the message names, and try again: [workspaces.md](workspaces.md)",
        ("WorkspaceFailed", "WorkspaceAway"),
    )
    yield Group(
        "The store",
        "conversations cannot be read or written: the disk, the rights of a file, a damaged or a newer database",
        "`understudy doctor` reads the store and says what is wrong; keep a copy (`understudy backup`) before you mend anything",
        ("StoreError", "Unavailable", "StoreGone", "Damaged", "CannotBeRecorded"),
    )
    yield Group(
        "Moving, copying and searching conversations",
        "the file, the database or the question that was given cannot be used",
        "read what the message expects: [conversations.md](conversations.md), [search.md](search.md), [many-machines.md](many-machines.md)",
        places=("store/", "servers/sharing/", "cli/store/", "cli/conversations/"),
    )
    yield Group(
        "The sandbox",
        "no command could be contained, so none was run",
        "`understudy doctor` says which rung works here and what to install; in containers see [ci-and-containers.md](ci-and-containers.md#rungs)",
        ("SandboxError",),
    )
    yield Group(
        "Told to the model",
        "the model called a tool in a way that cannot be done; it reads this and goes on",
        "nothing is to be done. If it happens again and again, say in the message what you want, or take another model",
        ("ToolError", "PatchError"),
    )
    yield Group(
        "Starting a server",
        "an address, a socket, a certificate or an extra is not as the server needs it",
        "correct the flag or the key that the message names ([serve.md](serve.md), [app-server.md](app-server.md#over-websockets))",
        ("ConfigError", "Mismatch", "wrong_usage"),
        ("servers/", "cli/serving/", "config/serve", "config/tokens"),
    )
    yield Group(
        "Hooks",
        "a file of hooks is wrong, or names something that is not there",
        "`understudy hooks test FILE` runs one by itself: [hooks.md](hooks.md)",
        places=("engine/hooks/", "config/hooks/", "cli/configuration/hooks"),
    )
    yield Group(
        "Policy",
        "a rule cannot be understood; nothing runs until it can, since it may guard something",
        "correct it: [policy.md](policy.md). `understudy policy check -- COMMAND` shows what your rules decide",
        places=("policy/", "cli/running/policy"),
    )
    yield Group(
        "Over HTTP: the page, REST and MCP",
        "the request is not as the server expects it: its token, headers, address, body or what it asks for",
        "do what the message says; [serve.md](serve.md) and [rest.md](rest.md) have the forms, and [troubleshooting.md](troubleshooting.md"
        "#over-http) the usual causes. Codes of REST: 400 `bad_request`, 401 `unauthorized`, 403 `forbidden` or `budget_spent`, 404 "
        "`not_found`, 405 `method_not_allowed`, 406 `not_acceptable`, 408 `timeout`, 409 `conflict`, 413 `too_large`, 415 "
        "`unsupported_media_type`, 421 `misdirected`, 429 `too_many_requests`, 500 `internal`, 502 `model_error`, 503 `unavailable`",
        ("Refusal", "Refused", "Conflict", "NotThere", "BrokenFrames"),
    )
    yield Group(
        "Arguments of a call",
        "a client's request has an argument, a method or a value that is not known",
        "correct the client; the message names the member and what was expected ([clients.md](clients.md), [app-server.md](app-server.md))",
        ("InvalidArguments", "InvalidParams", "InvalidRequest", "MethodNotFound", "BadRequest"),
        ("servers/", "engine/", "protocol/", "tools/"),
    )
    yield Group(
        "The library",
        "what a program asks of `Understudy` cannot be done",
        "correct the program; `error.code` tells the kinds apart ([library.md](library.md))",
        kinds=("UnderstudyError",),
    )
    yield Group(
        "Measuring an agent",
        "a task or a result of `bench-agent` cannot be used",
        "[bench-agent.md](bench-agent.md) has the format",
        places=("bench/", "cli/running/bench"),
    )
    yield Group(
        "A file of the configuration",
        "config.toml, a profile, a file beside it or `-c` has something that cannot be used",
        "`understudy config check` names the place; [configuration.md](configuration.md) says what each key takes",
        ("ConfigError", "Mismatch"),
    )
    yield Group(
        "Commands at the terminal",
        "the words, files or surroundings of a command are not as it needs them (exit code 2 for words that make no sense, else 1)",
        "do what the message says; `understudy COMMAND --help` lists the options, and [cli.md](cli.md) explains them",
        ("BadRequest", "wrong_usage", "AgentError"),
    )


HEAD = """# Errors

Every message that you can meet, with its cause and what to do. Look for words of yours with your browser, or with `understudy help errors`; `…`
stands for what differs. Many messages say themselves what to do: then do that. For symptoms without a message see
[troubleshooting.md](troubleshooting.md). This page is made from the messages in the code (`python docs/generate_errors.py`).
"""


def render() -> str:
    groups, _ = grouped()
    parts = [HEAD]
    for group in groups:
        lines = "\n".join(dict.fromkeys(f"- `` {each.text} ``" for each in group.messages))
        about = f"## {group.title}\n\n**Cause:** {group.cause}.\n\n**Remedy:** {group.remedy}.\n"
        parts.append(f"{about}\n{lines}\n" if lines else about)
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render())
