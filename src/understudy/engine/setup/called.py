"""What a person can call by name: commands (`.claude/commands`, `.codex/prompts`, and the user's own) and skills.

A command is a text in which `$ARGUMENTS` stands for the words after its name and `$1` for the first of them. Making this text runs
and reads nothing: the model may be given a request to run something, which is then judged like any other.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

import msgspec

from understudy.config.home import is_there
from understudy.config.model import Config
from understudy.config.project import COMMAND_FOLDERS, project_folders, skill_folders
from understudy.config.sandbox import places_of
from understudy.engine.setup.disk import MOST_BYTES, Found, in_home, in_tree, may_be_read, project_trees, tell
from understudy.engine.setup.placeholders import Style, TooLong, Words, fill, named_words
from understudy.engine.setup.skills import Skill, find_skills, front_matter, says, skill_text, without_front_matter
from understudy.errors import BadRequest
from understudy.places.places import Places
from understudy.protocol.items import InputText
from understudy.protocol.records import Pins
from understudy.text import make_visible

ENDING = ".md"
MOST_CALLED = 256
MOST_DESCRIPTION = 300
MOST_SPELLED_OUT = 1024 * 1024  # characters

_NAME = re.compile(r"[^\W_][\w.-]*(?::[^\W_][\w.-]*)*")
_TYPED = re.compile(r"\s*/(\S+)(.*)\Z", re.DOTALL)


class Called(msgspec.Struct, frozen=True):
    name: str
    description: str
    hint: str  # what words may follow its name
    path: str
    kind: Literal["command", "skill"] = "command"
    body: str = ""
    skill: Skill | None = None
    style: Style = "codex"  # whose rules for places hold
    names: tuple[str, ...] = ()  # of its words


def find_called(config: Config, places: Places) -> tuple[Called, ...]:
    """The nearest one of each name counts, commands before skills; names that differ only by case are the same."""
    by_name: dict[str, Called] = {}
    for _, command in survey_commands(config, places):
        if command is not None:
            by_name.setdefault(command.name.casefold(), command)
    if config.skills:
        for skill in find_skills(config, places).named:
            name = unicodedata.normalize("NFC", skill.name)
            if _NAME.fullmatch(name):
                called = Called(name, shown_line(skill.description), shown_line(skill.hint), skill.path, "skill", skill=skill)
                by_name.setdefault(name.casefold(), called)
    return tuple(sorted(by_name.values(), key=lambda each: each.name)[:MOST_CALLED])


def survey_commands(config: Config, places: Places, *, listing: bool = False) -> Iterator[tuple[Found, Called | None]]:
    """Everything that was found, with its command if it counts. `listing`: include folders that nobody trusts."""
    for tree in project_trees(config, COMMAND_FOLDERS, listing=listing):
        if tree.files is None:
            tell(
                f"the commands of {tree.folder} are not used, because {tree.why}."
                " Look at what they say; `understudy trust` lets them count"
            )
            continue
        for below in COMMAND_FOLDERS:
            for found in in_tree(tree, below, config):
                if found.relative.endswith(ENDING):
                    yield _judge(found, places)
    for folder in (f"{config.home}/prompts", f"{config.claude_home}/commands"):
        for found in in_home(folder, ENDING, places.masks, MOST_BYTES + 1):
            yield _judge(found, None)


def _judge(found: Found, places: Places | None) -> tuple[Found, Called | None]:
    if found.content is None:
        return found, None
    name = unicodedata.normalize("NFC", found.relative.removesuffix(ENDING).replace("/", ":"))
    if (why := _wrong(name, found, places)) is not None:
        if found.standing == "counts":
            tell(f"{found.path} is not used: {why}")
        return msgspec.structs.replace(found, standing="no", why=why), None
    if found.standing != "counts":
        return found, None
    text = found.content.decode("utf-8", "replace")
    fields = front_matter(text)
    if says(fields, "user-invocable", "false"):
        return msgspec.structs.replace(found, standing="no", why="it says `user-invocable: false`"), None
    body = without_front_matter(text)
    described = fields.get("description", "") or next((line for line in body.splitlines() if line.strip()), "")
    style: Style = "codex" if found.path.endswith(f"/prompts/{found.relative}") else "claude"
    return found, Called(
        name,
        shown_line(described),
        shown_line(fields.get("argument-hint", "")),
        found.path,
        body=body.strip(),
        style=style,
        names=named_words(fields.get("arguments", "")),
    )


def _wrong(name: str, found: Found, places: Places | None) -> str | None:
    if not _NAME.fullmatch(name):
        return "its name should be letters, digits, `-`, `_` and `.`, and begin with a letter or digit"
    if len(found.content or b"") > MOST_BYTES:
        return f"it is larger than {MOST_BYTES} bytes"
    if not (found.content or b"").strip():
        return "it is empty"
    if found.standing == "counts" and places is not None and not may_be_read(found.path, places):
        return "who commands run as may not read it"
    return None


def shown_line(text: str) -> str:
    """A line for a list that people read."""
    line = make_visible(" ".join(text.split()))
    return line if len(line) <= MOST_DESCRIPTION else f"{line[: MOST_DESCRIPTION - 1]}…"


def find_one(name: str, config: Config, places: Places) -> Called | None:
    wanted = unicodedata.normalize("NFC", name).casefold()
    return next((each for each in find_called(config, places) if each.name.casefold() == wanted), None)


def given_for(text: str, config: Config, pins: Pins | None = None) -> InputText | None:
    """What follows a message that begins with `/NAME`; None if nothing has that name. Raises `BadRequest`."""
    typed = _TYPED.match(text)
    if typed is None or not has_called(config):
        return None
    places = places_of(config, pins)
    called = find_one(typed[1], config, places)
    if called is None:
        return None
    told = spell_out(called, typed[2].strip(), config, places)
    if called.kind == "command":
        told = f"<command>\n<name>{called.name}</name>\n<path>{make_visible(called.path)}</path>\n{told}\n</command>"
    return InputText(f"\n\n{told}")


def called_by(config: Config, pins: Pins | None = None) -> tuple[Called, ...]:
    """For the lists that front ends show. Cached, because they are requested often."""
    return find_called(config, places_of(config, pins)) if has_called(config) else ()


def has_called(config: Config) -> bool:
    folders = project_folders(str(config.cwd))
    if config.skills and skill_folders((config.home, config.agents_home, config.claude_home), folders):
        return True
    own = (f"{config.home}/prompts", f"{config.claude_home}/commands")
    return any(map(is_there, (*own, *(f"{folder}/{name}" for folder in folders for name in COMMAND_FOLDERS))))


def spell_out(called: Called, words: str, config: Config, places: Places) -> str:
    """Raises `BadRequest` if the text would be too long, or the file is gone."""
    body, style = called.body, called.style
    if called.skill is not None:
        body, style = skill_text(called.skill, config, places) or "", "skill"
        if not body:
            raise BadRequest(f"the skill {called.name} cannot be read any more")
    variables = {"CLAUDE_PROJECT_DIR": str(config.cwd)} if "${CLAUDE_PROJECT_DIR}" in body else {}
    try:
        return fill(body, Words(words, style, called.names, variables), MOST_SPELLED_OUT)
    except TooLong:
        raise BadRequest(
            f"/{called.name} with these words makes a text that is too long; {MOST_SPELLED_OUT} characters are the most"
        ) from None
