"""`understudy doctor --files`: every file on disk with instructions for agents, whether it is used here, and if not, why."""

import json
import logging
import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from understudy.cli.settings import read_overrides
from understudy.cli.tell.terminal import Flow, one_line, open_console
from understudy.config.home import find_home, is_there
from understudy.config.load import CLAUDE_DOC_NAMES, load_config
from understudy.config.model import Config
from understudy.config.project import COMMAND_FOLDERS, SKILL_FOLDERS, is_marked_untrusted, project_files, project_folders
from understudy.config.sandbox import places_of
from understudy.engine.hooks.loading import load_hooks, untrusted_folders
from understudy.engine.setup.called import Called, survey_commands
from understudy.engine.setup.claude_docs import left_out
from understudy.engine.setup.disk import Found, OwnTree, Standing, in_home, in_tree, project_trees
from understudy.engine.setup.setup import own_doc_paths, own_docs, project_docs
from understudy.engine.setup.skills import MOST_SKILLS, Skill, find_skills, survey_skills
from understudy.engine.setup.turn_setup import Doc
from understudy.errors import ConfigError
from understudy.places.places import Places
from understudy.places.reading import NotForModels, read_for_model
from understudy.protocol.records import Overrides

MOST_LINES = 200  # per kind; `--json` has all
_MOST_ENTRIES = 5_000  # of a folder, searched for names that differ in case
_MARKED = "the folder is marked as untrusted"
_NOT_OURS = ("CLAUDE.local.md", ".codex/AGENTS.md", ".agents/AGENTS.md")
_RULES = ".claude/rules"
_AGENTS = (".claude/agents", ".codex/agents")
_PLUGINS = (
    ".claude-plugin/plugin.json",
    ".claude-plugin/marketplace.json",
    ".codex-plugin/plugin.json",
    ".plugin/plugin.json",
    ".agents/plugins/marketplace.json",
)


class Row(msgspec.Struct, frozen=True):
    kind: str
    path: str
    standing: Standing
    why: str = ""
    name: str = ""
    by_choice: bool = False  # the user chose another file, so nothing is wrong

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "kind": self.kind,
            "path": self.path,
            "counts": self.standing == "counts",
            "standing": self.standing,
        }
        return {**told, **({"name": self.name} if self.name else {}), **({"why": self.why} if self.why else {})}


def survey(config: Config) -> Iterator[Row]:
    places = places_of(config)
    yield from instructions(config)
    yield from _skills(config, places)
    yield from _commands(config, places)
    yield from _agents(config, places)
    yield from _plugins(config, places)
    yield from _hooks(config)
    yield from _settings(config)


# -- instructions


def instructions(config: Config) -> Iterator[Row]:
    places = places_of(config)
    yield from _own_instructions(config, places)
    docs = project_docs(config, places)
    used = {doc.path: doc for doc in docs}
    left = config.project_doc_max_bytes
    folders = project_folders(places.pinned[0].path)
    for folder in (each.rstrip("/") for each in reversed(folders)):
        counted = next((path for path, doc in used.items() if not doc.imported and _folder_of(path, config) == folder), "")
        for name in config.project_doc_names:
            path = f"{folder}/{name}"
            if not is_there(path) or path == f"{config.claude_home}/{CLAUDE_DOC_NAMES[0]}":
                continue
            if path == counted:
                size = os.path.getsize(path)
                cut = f"only its first {max(left, 0)} bytes are read: raise project_doc_max_bytes" if size > left else ""
                left -= size
                yield Row("instructions", path, "counts", cut or _odd_text(path, places, folders[-1]))
            else:
                why, chosen = _why_not(path, places, folders[-1], counted, config, left)
                yield Row("instructions", path, "no", why, by_choice=chosen)
        yield from _not_ours(folder, config, used)
    yield from _imports(docs, folders[-1])


def _imports(docs: Sequence[Doc], within: str) -> Iterator[Row]:
    yield from (Row("instructions", doc.path, "counts", "imported") for doc in docs if doc.imported)
    yield from (Row("instructions", path, "no", why, by_choice=True) for path, why in left_out(docs, within))


def _folder_of(path: str, config: Config) -> str:
    name = max((name for name in config.project_doc_names if path.endswith(f"/{name}")), key=len, default="")
    return path.removesuffix(f"/{name}")


def _own_instructions(config: Config, places: Places) -> Iterator[Row]:
    docs = own_docs(config, places)
    used = {doc.path for doc in docs}
    paths = own_doc_paths(config)
    for path in filter(is_there, paths):
        if path in used:
            yield Row("instructions", path, "counts", _odd_text(path, places, "/"))
        else:
            why, chosen = _why_not(path, places, "/", next((each for each in paths if each in used), ""), config, 1)
            yield Row("instructions", path, "no", why, by_choice=chosen)
    if is_there(path := f"{config.agents_home}/AGENTS.md"):
        yield Row("instructions", path, "no", _only_these(config), by_choice=True)
    for found in in_home(f"{config.claude_home}/rules", ".md", places.masks, 1):
        counts = found.path in used
        yield Row("instructions", found.path, "counts" if counts else "no", "" if counts else found.why or "it is empty")
    yield from _imports(docs, config.claude_home)


def _why_not(path: str, places: Places, within: str, counted: str, config: Config, left: int) -> tuple[str, bool]:
    """Why it is not used, and whether that was chosen."""
    if within != "/" and is_marked_untrusted(path, config.projects):
        return _MARKED, True
    try:
        content = places.act(lambda: read_for_model(path, places.masks, 4096, within=within))
    except NotForModels as error:
        said = str(error)
        outside = "a link to a place outside the project, so it is not read; put the text itself there"
        return (outside if "outside its project" in said else said.removeprefix(f"{path} is ")), False
    except OSError as error:
        return f"cannot be read ({error.strerror}), so the model is not told what it says", False
    if left <= 0:
        return "the files before it have used up project_doc_max_bytes", False
    if not content.strip():
        return "it is empty", True
    return (f"{os.path.basename(counted)} beside it comes first" if counted else "another file comes first"), True


def _odd_text(path: str, places: Places, within: str) -> str:
    try:
        places.act(lambda: read_for_model(path, places.masks, 4 << 20, within=within)).decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start}); the model gets marks in place of what cannot be read"
    except (OSError, NotForModels) as error:
        return str(error)
    return ""


def _not_ours(folder: str, config: Config, used: Mapping[str, Doc]) -> Iterator[Row]:
    """What else a folder has for models, and whether it counts."""
    rules = [found.path for tree in project_trees(config, (_RULES,), listing=True) for found in in_tree(tree, _RULES, config)]
    names = [*_NOT_OURS, *_other_case(folder, config)]
    for path in (*(f"{folder}/{name}" for name in names), *(path for path in rules if path.startswith(f"{folder}/{_RULES}/"))):
        if path in used:
            yield Row("instructions", path, "counts")
        elif is_there(path) and os.path.dirname(path) not in (str(config.home), config.agents_home):
            yield Row("instructions", path, "no", _only_these(config), by_choice=True)


def _other_case(folder: str, config: Config) -> list[str]:
    wanted = {name.casefold() for name in config.project_doc_names if "/" not in name}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except OSError:
        return []
    return sorted(name for name in names if name.casefold() in wanted and name not in config.project_doc_names)


def _only_these(config: Config) -> str:
    return f"only these names count: {', '.join(config.project_doc_names)}"


# -- skills and commands


def _skills(config: Config, places: Places) -> Iterator[Row]:
    told = {skill.path for skill in find_skills(config, places).listed}
    first: dict[str, str] = {}
    for found, skill in survey_skills(config, places, listing=True):
        row = _row("skill", found, skill.name if skill is not None else "")
        if skill is None:
            yield row
        elif not config.skills:
            yield msgspec.structs.replace(row, standing="no", why="`understudy.skills` is false", by_choice=True)
        elif (before := first.setdefault(skill.name, skill.path)) != skill.path:
            yield msgspec.structs.replace(row, standing="no", why=f"a skill of the same name comes first: {before}")
        else:
            yield msgspec.structs.replace(row, why=_use_of(skill, told))
    yield from _links("skill", config, SKILL_FOLDERS)


def _use_of(skill: Skill, told: set[str]) -> str:
    if not skill.for_models and not skill.for_people:
        return "neither the model is told of it nor can a person name it"
    if not skill.for_models:
        return "only where a person names it"
    if skill.path not in told:
        return f"only where a person names it: the model is told of {MOST_SKILLS} skills"
    return "" if skill.for_people else "only for the model"


def _commands(config: Config, places: Places) -> Iterator[Row]:
    first: dict[str, Called] = {}
    for found, command in survey_commands(config, places, listing=True):
        row = _row("command", found, f"/{command.name}" if command is not None else "")
        if command is None:
            yield row
        elif (before := first.setdefault(command.name.casefold(), command)).path != command.path:
            yield msgspec.structs.replace(row, standing="no", why=f"a command of the same name comes first: {before.path}")
        else:
            yield msgspec.structs.replace(
                row, why="`!` lines in it are not run: the model is given them" if "!`" in command.body else ""
            )
    yield from _links("command", config, COMMAND_FOLDERS)


def _row(kind: str, found: Found, name: str) -> Row:
    return Row(kind, found.path, found.standing, found.why, name)


def _links(kind: str, config: Config, names: Sequence[str]) -> Iterator[Row]:
    for tree in project_trees(config, names, listing=True):
        if tree.files is None:
            yield Row(kind, tree.folder, "no", tree.why)
            continue
        for path in tree.files.others:
            if any(f"{path}/".startswith(f"{name}/") or name.startswith(f"{path}/") for name in names):
                yield Row(
                    kind, f"{tree.folder}/{path}", "no", "a link or no plain file: in a project these are not followed or read"
                )


# -- what does not count yet


def _agents(config: Config, places: Places) -> Iterator[Row]:
    why = "agents of one's own are not used yet"
    for tree in project_trees(config, _AGENTS, listing=True):
        for name in _AGENTS:
            yield from _none_of("agent", in_tree(tree, name, config), why)
    for folder in (f"{config.home}/agents", f"{config.claude_home}/agents"):
        for ending in (".md", ".toml"):
            yield from _none_of("agent", in_home(folder, ending, places.masks, 1), why)


def _none_of(kind: str, files: Iterable[Found], why: str) -> Iterator[Row]:
    return (Row(kind, found.path, "no", why) for found in files if found.path.endswith((".md", ".toml")))


def _plugins(config: Config, places: Places) -> Iterator[Row]:
    why = "plugins are not used yet"
    for folder in project_folders(str(config.cwd)):
        yield from (Row("plugin", path, "no", why) for name in _PLUGINS if is_there(path := f"{folder}/{name}"))
    for home in (str(config.home), config.claude_home):
        files = in_home(f"{home}/plugins", ".json", places.masks, 1)
        yield from (
            Row("plugin", found.path, "no", why) for found in files if found.path.endswith(("/plugin.json", "/marketplace.json"))
        )


# -- what is trusted by ways of its own


def _hooks(config: Config) -> Iterator[Row]:
    loaded = load_hooks(config.cwd, config.home, os.environ, config.hooks, untrusted_folders(config.projects))
    for each in loaded.judged:
        why = {"untrusted": "nobody has trusted it", "modified": "it or its script has changed since you trusted it"}
        standing: Standing = "counts" if each.counts else "trust" if each.enabled else "no"
        text = "" if each.counts else why.get(each.standing, "") if each.enabled else "it is switched off"
        if each.hook.file.source == "project" and is_marked_untrusted(each.hook.file.path, config.projects):
            standing, text = "no", _MARKED
        yield Row("hook", each.hook.file.path, standing, text, each.hook.key.removeprefix(f"{each.hook.file.path}:"))
    for problem in loaded.problems:
        path, _, why = problem.partition(" ")
        yield Row("hook", path.rstrip(":"), "no", why)


def _settings(config: Config) -> Iterator[Row]:
    """Those of projects, apart from hooks."""
    trees: dict[str, OwnTree] = {}
    for folder, file in project_files(config.cwd, config.home):
        if folder not in trees:
            names = (file,)
            trees[folder] = next(
                (tree for tree in project_trees(config, names, listing=True) if tree.folder == folder), OwnTree(folder, "no")
            )
        tree = trees[folder]
        plain = tree.files is not None and file in tree.files.contents
        why = tree.why if plain or tree.files is None else "it has to be a plain file, and no link"
        yield Row("settings", f"{folder}/{file}", tree.standing if plain else "no", why)


# -- showing it


def run_files(options: Namespace) -> int:
    home = find_home(os.environ)
    config = load_config(home, Overrides(model="none"), cli=read_overrides(options), server_cwd=Path.cwd(), env=os.environ)
    log = logging.getLogger("understudy")
    level = log.level
    log.setLevel(logging.ERROR)  # errors are shown as rows
    try:
        rows = list(survey(config))
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    finally:
        log.setLevel(level)
    if options.json:
        print(json.dumps({"folder": str(config.cwd), "files": [row.as_json() for row in rows]}, indent=2))
    else:
        _print(rows, config)
    return 0


_TITLES = {
    "instructions": "Instructions",
    "skill": "Skills",
    "command": "Commands",
    "agent": "Agents",
    "plugin": "Plugins",
    "hook": "Hooks",
    "settings": "Settings of projects",
}
_MARKS = {"counts": ("✓", "green"), "trust": ("!", "yellow"), "no": ("·", "dim")}


def _print(rows: list[Row], config: Config) -> None:
    console = open_console()
    for kind, title in _TITLES.items():
        mine = [row for row in rows if row.kind == kind]
        if not mine:
            continue
        console.print(Text(title, "bold"))
        for row in mine[:MOST_LINES]:
            mark, style = _MARKS[row.standing]
            flow = Flow(console, first=f"  {mark} {row.standing:<6} ", indent="           ", first_style=style)
            named = f"{row.name}  " if row.name else ""
            flow.whole(one_line(f"{named}{row.path}" + (f": {row.why}" if row.why else "")))
        if len(mine) > MOST_LINES:
            console.print(Text(f"    and {len(mine) - MOST_LINES} more; --json has all", "dim"))
        console.print()
    if not rows:
        console.print(Text(f"No such file is there for {one_line(str(config.cwd))}."))
    if any(row.standing == "trust" for row in rows):
        console.print(Text("What says `trust` counts once you have looked at it and run `understudy trust DIR`."))
