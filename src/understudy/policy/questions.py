"""What a person is asked: true, complete, and ordered so that the model's words cannot be mistaken for ours.

The first line is the one that clients of `codex` know. Newer clients show further lines; older ones get the same in
`codex_reason`. Each fact is one line. Text by the model or the repository is between marks that it cannot close (backticks, shell
quotes), or behind a bar at the beginning of its line.

Also knows files that take effect by themselves later: writing one means running something, only not now.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from unicodedata import name as name_of
from unicodedata import normalize

import msgspec

from understudy.policy.words import names, script_of, simple_commands
from understudy.protocol.records import CommandApprovalAsked, PatchApprovalAsked
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import in_ticks, make_visible, quote_command, quote_word

# What runs or obeys each of them: names of files, endings of names, and folders with their content.
_RUN_BY: tuple[tuple[str, str], ...] = (
    ("run by direnv and similar tools on entering the folder", ".envrc .env mise.toml .mise.toml .tool-versions /.direnv/"),
    ("run by the editor", "/.vscode/ /.idea/ *.code-workspace .vimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el"),
    ("run when the container is built", "/.devcontainer/ .devcontainer.json"),
    (
        "run by the build service",
        "/.github/workflows/ /.github/actions/ /.gitlab/ .gitlab-ci.yml .gitlab-ci.yaml /.circleci/ /.woodpecker/ .woodpecker.yml"
        " /.buildkite/ /.forgejo/ /.gitea/ .travis.yml .drone.yml azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml"
        " cloudbuild.yaml jenkinsfile",
    ),
    (
        "run or obeyed by git",
        "/.git/ .git .gitmodules .gitattributes .gitconfig /.githooks/ /.husky/ .pre-commit-config.yaml .pre-commit-config.yml"
        " lefthook.yml",
    ),
    (
        "run by each new shell or at login",
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc"
        " .cshrc .tcshrc .xprofile .xsessionrc .xinitrc .inputrc /.config/fish/ /.config/autostart/ /.config/environment.d/",
    ),
    ("run as a service", "/.config/systemd/ /.local/share/systemd/ /library/launchagents/ crontab"),
    ("obeyed by debuggers", ".gdbinit .lldbinit"),
    ("obeyed by package managers", ".npmrc .yarnrc .yarnrc.yml .pnp.cjs .pnp.js .pnpmfile.cjs pip.conf .pypirc /.cargo/"),
    ("run by every Python program", "sitecustomize.py usercustomize.py *.pth"),
    ("lets others log in, or logs in elsewhere", "/.ssh/ .netrc"),
    (
        "obeyed by agents",
        "/.codex/ /.agents/ /.claude/ /.cursor/ .mcp.json agents.md agents.override.md claude.md claude.local.md",
    ),
)
_NAMES = {name: words for words, entries in _RUN_BY for name in names(entries) if name[0] not in "/*"}
_ENDINGS = {name[1:]: words for words, entries in _RUN_BY for name in names(entries) if name[0] == "*"}
_FOLDERS = {name: words for words, entries in _RUN_BY for name in names(entries) if name[0] == "/"}


def runs_later(path: str) -> str | None:
    """What reads this file by itself and does what it says, if anything.

    Ignores case and odd spellings: some file systems treat `.GIT`, `.git.` and `.git ` as the same name.
    """
    if not path.isascii():
        path = normalize("NFKC", path)
    parts = [part.rstrip(". ") or part for part in path.casefold().split("/")]
    name, whole = parts[-1], f"/{'/'.join(parts)}"
    return (
        _NAMES.get(name)
        or next((words for ending, words in _ENDINGS.items() if name.endswith(ending)), None)
        or next((words for folder, words in _FOLDERS.items() if folder in whole), None)
    )


PATCH_QUESTION = "Allow Codex to apply proposed code changes?"

_ALL_RIGHTS = "with all rights of the account that runs understudy"
_OUTSIDE = f"If approved it runs outside the sandbox, {_ALL_RIGHTS}."
_NO_SANDBOX = f"There is no sandbox in this mode: if approved it runs {_ALL_RIGHTS}."

_DOUBLE_QUOTE = re.compile("[\"\u02ba\u02dd\u02ee\u201c-\u201f\u2033\u2036\u301d-\u301f\uff02]|''")  # and what looks like one
_RIGHT_TO_LEFT = re.compile("(?=\\w)[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LONG = 400
_GLANCE = 70  # columns and lines that some clients show of a question
_ENDING = 160
_MAX_FILES = 100
_MAX_WORDS = 2_000  # characters of the model's words
_MAX_SCRIPT_LINES = 400


def command_question(argv: Sequence[str], cwd: str) -> str:
    """The first line: canonical argv and the folder. Never cut, and always one line."""
    return f"Allow Codex to run {in_ticks(quote_command(argv))} in {in_ticks(cwd)}?"


def patch_question(reason: str | None = None) -> str:
    """What older clients show for a patch; a reason goes before the question."""
    return f"{make_visible(reason)}\n{PATCH_QUESTION}" if reason else PATCH_QUESTION


class CommandQuestion(msgspec.Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: str
    justification: str | None = None  # the model's own words
    full_access: bool = False  # the mode has no sandbox
    retries: bool = False  # it has run contained, and the sandbox refused something
    note: str | None = None  # the reason in the user's own rule
    typed_at: str | None = None  # the running command for which this is input

    @staticmethod
    def of(asked: CommandApprovalAsked) -> "CommandQuestion":
        words = None if asked.retries else asked.reason  # for a second run, the reason is ours and shown elsewhere
        return CommandQuestion(asked.command, asked.cwd, words, asked.full_access, asked.retries, asked.note, asked.typed_at)


def command_details(question: CommandQuestion) -> tuple[str, ...]:
    """The lines after the first, the model's words last."""
    lines: list[str] = []
    if question.typed_at is not None:
        where = f"outside the sandbox, {_ALL_RIGHTS}" if question.full_access else "in the sandbox"
        lines.append(f"If approved it is typed at the terminal of {in_ticks(question.typed_at)}, which runs {where}.")
        lines.append("A yes for the session also answers for everything that is typed there later.")
    else:
        lines.append(_NO_SANDBOX if question.full_access else _OUTSIDE)
    if question.retries:
        lines.append("It has run in the sandbox and was refused something there; this would run it a second time.")
    if question.note:
        lines.append(f"Asked because of a rule: {make_visible(question.note)}")
    lines.extend(_about_argv(question.argv))
    if question.justification and question.justification.strip():
        lines.append(f"The model's own words, not checked: {_in_quotes(question.justification)}")
    return tuple(lines)


def command_message(question: CommandQuestion) -> str:
    """The full text, for clients that show only the message. How long it is and what a yes allows come first."""
    first = command_question(question.argv, question.cwd)
    return "\n".join((first, *_ending_of(first, question.argv), *command_details(question)))


def _ending_of(first: str, argv: tuple[str, ...]) -> Iterable[str]:
    command = in_ticks(quote_command(argv))
    if first.index(command) + len(command) > _GLANCE:
        start = "It ends with `…"
        yield start + command[max(1, len(command) + len(start) - _GLANCE) :]


def command_reason(question: CommandQuestion) -> str:
    """`codex_reason`, for clients whose message is only the first line."""
    return "\n".join(command_details(question))


class PatchQuestion(msgspec.Struct, frozen=True):
    changes: Mapping[str, FileChange]
    cwd: str = "/"  # paths below it are shown relative to it
    outside: frozenset[str] = frozenset()  # paths outside the writable roots
    protected: frozenset[str] = frozenset()  # paths on the protected list
    replaced: frozenset[str] = frozenset()  # paths of files that others replace
    reason: str | None = None  # ours, or that of a user's rule

    @staticmethod
    def of(asked: PatchApprovalAsked, cwd: str) -> "PatchQuestion":
        outside, protected, replaced = frozenset(asked.outside), frozenset(asked.protected), frozenset(asked.replaced)
        return PatchQuestion(asked.changes, cwd or "/", outside, protected, replaced, asked.reason)


def patch_details(question: PatchQuestion) -> tuple[str, ...]:
    """The files with their line counts; those that deserve a second look come first and are never left out."""
    warned: list[str] = []
    plain: list[str] = []
    for path, change in question.changes.items():
        marks = _marks(path, change, question)
        line = _file_line(path, change, question.cwd)
        if marks:
            warned.append(f"! {line}: {', '.join(marks)}")
        else:
            plain.append(f"- {line}")
    lines = [f"Asked because: {make_visible(question.reason)}"] if question.reason else []
    lines += warned + plain[: max(0, _MAX_FILES - len(warned))]
    if len(warned) + len(plain) > max(_MAX_FILES, len(warned)):
        lines.append(f"and {len(warned) + len(plain) - max(_MAX_FILES, len(warned))} more files")
    lines.extend(_about_letters(tuple(_all_paths(question.changes))))
    return tuple(lines)


def patch_message(question: PatchQuestion) -> str:
    return "\n".join((PATCH_QUESTION, *patch_details(question)))


def patch_reason(question: PatchQuestion) -> str:
    return "\n".join(patch_details(question))


def _about_argv(argv: tuple[str, ...]) -> Iterable[str]:
    """What is easy to miss in the first line: its length, the lines of a script, letters that look like others."""
    script = script_of(argv)
    quoted = quote_command(argv)
    if script is not None and "\n" in script.strip("\n"):
        lines = script.strip("\n").split("\n")
        yield f"The script has {len(lines)} lines:"
        left_out = len(lines) - _MAX_SCRIPT_LINES
        half = _MAX_SCRIPT_LINES // 2
        yield from (f"| {make_visible(line)}" for line in (lines if left_out <= 0 else lines[:half]))
        if left_out > 0:
            yield f"{left_out} lines here are only in the first line of this question. Then it goes on:"
            yield from (f"| {make_visible(line)}" for line in lines[-half:])
    elif len(quoted) > _LONG:
        yield f"The command is {len(quoted)} characters long. It ends with:"
        yield f"| {make_visible(quoted[-_ENDING:])}"
    if len(quoted) > _LONG and script is not None:
        commands = simple_commands(argv)
        if commands is not None:
            yield f"It runs: {', '.join(dict.fromkeys(words[0] for words in commands))}"  # plain names, see `split_script`
    yield from _about_letters(argv)


def _about_letters(texts: Sequence[str]) -> Iterable[str]:
    if lookalikes := _lookalikes(texts):
        yield f"Letters that may look like others: {lookalikes}"


def _lookalikes(texts: Sequence[str]) -> str:
    """Names letters from outside ASCII in a word that also has ASCII letters, and right-to-left letters."""
    found: dict[str, str] = {}
    for word in texts:
        if not word.isascii():
            found.update(dict.fromkeys(_RIGHT_TO_LEFT.findall(word), ", written from right to left"))
            if any("a" <= letter <= "z" for letter in word.lower()):
                for letter in word:
                    if letter > "\u024f" and letter.isalpha():
                        found.setdefault(letter, "")
    if not found:
        return ""
    shown = [f"{letter} (U+{ord(letter):04X} {name_of(letter, '?')}{how})" for letter, how in list(found.items())[:10]]
    return ", ".join(shown) + (f" and {len(found) - 10} more" if len(found) > 10 else "")


def _in_quotes(text: str) -> str:
    """On one line, between quotes that it cannot close."""
    one_line = " ".join(text.split())
    cut = f" … and {len(one_line) - _MAX_WORDS} more characters" if len(one_line) > _MAX_WORDS else ""
    return '"' + _DOUBLE_QUOTE.sub("'", make_visible(one_line[:_MAX_WORDS])) + '"' + cut


def _all_paths(changes: Mapping[str, FileChange]) -> Iterable[str]:
    for path, change in changes.items():
        yield from _paths(path, change)


def _paths(path: str, change: FileChange) -> tuple[str, ...]:
    match change:
        case UpdateFile(move_path=str(target)):
            return path, target
        case _:
            return (path,)


def _marks(path: str, change: FileChange, question: PatchQuestion) -> list[str]:
    paths = _paths(path, change)
    marks: list[str] = []
    if any(each in question.protected for each in paths):
        marks.append("protected")
    if any(each in question.outside for each in paths):
        marks.append("outside the project")
    if any(each in question.replaced for each in paths):
        marks.append("replaces what is there")
    marks.extend(dict.fromkeys(f"takes effect later, {by_whom}" for each in paths if (by_whom := runs_later(each))))
    return marks


def _file_line(path: str, change: FileChange, cwd: str) -> str:
    shown = _shown(path, cwd)
    match change:
        case AddFile(content=content):
            return f"add {shown} (+{_count_lines(content)})"
        case DeleteFile(content=content):
            return f"delete {shown} (-{_count_lines(content)})"
        case UpdateFile(unified_diff=diff, move_path=target):
            done = f"update {shown}" if target is None else f"move {shown} to {_shown(target, cwd)}"
            return f"{done} ({_count_changes(diff)})"


def _shown(path: str, cwd: str) -> str:
    """In quotes if it has unusual characters, so that it cannot be mistaken for our words."""
    below = path.removeprefix(cwd.rstrip("/") + "/") if cwd != "/" else path
    return make_visible(quote_word(below))


def _count_lines(content: str) -> int:
    return content.count("\n") + (not content.endswith("\n") and content != "")


def _count_changes(diff: str) -> str:
    lines = diff.split("\n")
    return f"+{sum(line.startswith('+') for line in lines)} -{sum(line.startswith('-') for line in lines)}"
