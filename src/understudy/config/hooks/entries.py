"""Parses a hooks file. An error in one entry is reported and disables only that entry."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast, get_args

import msgspec

Family = Literal["claude", "codex"]
Source = Literal["user", "project"]
Event = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "UserPromptSubmit",
    "Stop",
    "SessionStart",
    "PreCompact",
]
EVENTS: Final = cast(tuple[Event, ...], get_args(Event))
GUARDS: Final = frozenset(("PreToolUse", "PermissionRequest", "UserPromptSubmit"))  # what they guard does not happen without them
NOT_MATCHED: Final = frozenset(("UserPromptSubmit", "Stop"))  # a matcher has no meaning for these

DEFAULT_SECONDS = 600.0
MOST_SECONDS = 3600.0
MOST_ENTRIES = 500  # of one of the user's own files
MOST_OF_A_FOLDER = 50  # of one file in a project's folder, whose author may be anybody
MOST_PROBLEMS = 20  # reported for one file
_LONGEST_COMMAND = 64 * 1024
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class HookFile(msgspec.Struct, frozen=True):
    """A file that may contain hooks, and whose file it is."""

    path: str
    family: Family
    source: Source
    folder: str = ""  # for a project's file: the folder that it belongs to


class Hook(msgspec.Struct, frozen=True):
    """One entry."""

    file: HookFile
    key: str  # `FILE:event_in_snake_case:group:index`
    event: Event
    command: str
    matcher: str | None = None
    condition: str | None = None  # `if`: which calls it applies to, as a rule such as `Bash(git *)`
    seconds: float = DEFAULT_SECONDS
    status_message: str | None = None
    detached: bool = False  # `async`: nobody waits for it, so it decides nothing
    once: bool = False  # per conversation

    @property
    def guards(self) -> bool:
        return self.event in GUARDS and not self.detached

    @property
    def name(self) -> str:
        """For people, and for a model: never the command line."""
        return self.key

    @property
    def entry(self) -> bytes:
        """What the user trusts, apart from the files that the command depends on."""
        said = (self.event, self.matcher, self.condition, self.command, self.seconds, self.detached, self.once)
        return msgspec.json.encode(said)


class Entries(msgspec.Struct, frozen=True):
    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()


def read_json(file: HookFile, content: bytes) -> Entries:
    try:
        tree = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Entries(problems=(f"{file.path} is not JSON, so none of its hooks runs: {error}",))
    if not isinstance(tree, Mapping):
        return Entries()
    said = cast(Mapping[str, Any], tree)
    entries = read_tree(file, said.get("hooks"))
    if file.source == "project" and _restricts(said.get("permissions")):
        return Entries(entries.hooks, (*entries.problems, f"{file.path}: {NO_RULES_OF_FOLDERS}"))
    return entries


NO_RULES_OF_FOLDERS = (
    "what its `permissions` deny or ask about is not obeyed here, since a folder brings no rules: "
    "put them into your own ~/.claude/settings.json"
)


def _restricts(permissions: Any) -> bool:
    if not isinstance(permissions, Mapping):
        return False
    said = cast(Mapping[str, Any], permissions)
    return bool(said.get("deny") or said.get("ask"))


def read_tree(file: HookFile, tree: Any) -> Entries:
    """`tree` is the value of `hooks`, or None."""
    if tree is None:
        return Entries()
    if not isinstance(tree, Mapping):
        return Entries(problems=(f"{file.path}: `hooks` should be a table of events, so none of its hooks runs",))
    reading = _Reading(file)
    for event, groups in cast(Mapping[str, Any], tree).items():
        reading.event(event, groups)
    return Entries(tuple(reading.hooks), tuple(reading.problems))


def snake_case(event: str) -> str:
    return _CAPITAL.sub("_", event).lower()


def switched_off(tree: Any) -> frozenset[str]:
    """Keys of hooks that the user has disabled by `[hooks.state."KEY"] enabled = false`."""
    state = cast(Mapping[str, Any], tree).get("state") if isinstance(tree, Mapping) else None
    if not isinstance(state, Mapping):
        return frozenset()
    said = cast(Mapping[str, Any], state).items()
    return frozenset(key for key, value in said if isinstance(value, Mapping) and cast(Any, value).get("enabled") is False)


class _Reading:
    """Reads one file."""

    def __init__(self, file: HookFile) -> None:
        self._file = file
        self._most = MOST_ENTRIES if file.source == "user" else MOST_OF_A_FOLDER
        self.hooks: list[Hook] = []
        self.problems: list[str] = []

    def event(self, event: str, groups: Any) -> None:
        if event in ("state", "description"):
            return
        if event not in EVENTS:
            self._complain(event, "this event is not known here, so its hooks do not run")
            return
        if not isinstance(groups, list):
            self._complain(event, "should be a list of groups, so its hooks do not run")
            return
        for number, group in enumerate(cast(list[Any], groups)):
            place = f"{event}[{number}]"
            if len(self.hooks) >= self._most:
                self._complain_of_more(place)
                return
            entries = cast(Mapping[str, Any], group).get("hooks") if isinstance(group, Mapping) else None
            if not isinstance(entries, list):
                self._complain(place, "should be a table with a list `hooks`, so its hooks do not run")
                continue
            matcher = cast(Mapping[str, Any], group).get("matcher")
            if matcher is not None and not isinstance(matcher, str):
                self._complain(place, "`matcher` should be a text, so its hooks do not run")
            elif matcher is not None and len(matcher) > _LONGEST_COMMAND:
                self._complain(
                    place, f"`matcher` should be a text of at most {_LONGEST_COMMAND} characters, so its hooks do not run"
                )
            elif matcher is not None and event not in NOT_MATCHED and (problem := matcher_problem(matcher)) is not None:
                self._complain(place, f"the matcher {matcher!r} is no regular expression ({problem}), so its hooks do not run")
            else:
                self._group(event, number, matcher or None, cast(list[Any], entries))

    def _group(self, event: Event, group: int, matcher: str | None, entries: list[Any]) -> None:
        for index, entry in enumerate(entries):
            place = f"{event}[{group}].hooks[{index}]"
            if len(self.hooks) >= self._most:
                self._complain_of_more(place)
                return
            problems = [*_problems(entry)]
            if problems:
                self._complain(place, f"{problems[0]}, so this hook does not run")
                continue
            told = cast(Mapping[str, Any], entry)
            self.hooks.append(
                Hook(
                    self._file,
                    f"{self._file.path}:{snake_case(event)}:{group}:{index}",
                    event,
                    told["command"],
                    matcher,
                    told.get("if"),
                    min(float(told.get("timeout", DEFAULT_SECONDS)), MOST_SECONDS),
                    told.get("statusMessage"),
                    detached=told.get("async", False),
                    once=told.get("once", False),
                )
            )

    def _complain_of_more(self, place: str) -> None:
        self._complain(place, f"such a file has at most {self._most} hooks, so this one and those after it do not run")

    def _complain(self, place: str, what: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{self._file.path}: {place}: {what}")
        elif len(self.problems) == MOST_PROBLEMS:
            self.problems.append(f"{self._file.path}: there are more such faults in it")


def _problems(entry: Any) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield "should be a table"
        return
    told = cast(Mapping[str, Any], entry)
    kind = told.get("type")
    if kind != "command":
        yield "it has no `type`" if kind is None else f"the type {kind!r} is not known here"
        return
    command = told.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command or len(command) > _LONGEST_COMMAND:
        yield f"`command` should be a text of at most {_LONGEST_COMMAND} characters"
    seconds = told.get("timeout", DEFAULT_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        yield "`timeout` should be a number of seconds above 0"
    for key, kinds, wanted in (
        ("if", (str,), "a text"),
        ("statusMessage", (str,), "a text"),
        ("async", (bool,), "true or false"),
        ("once", (bool,), "true or false"),
    ):
        value = told.get(key)
        if value is not None and not isinstance(value, kinds):
            yield f"`{key}` should be {wanted}"


def matcher_problem(matcher: str) -> str | None:
    try:
        re.compile(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return None if matcher == "*" else str(error)
    return None
