"""Two planted trees, and what of them reached the models of codex 0.169.0 and Claude Code 2.1.327: the same, or there is a reason.

`recorded_files.json` has the trees, and of each case what was told. The working directory is `a/b` of a repository.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engine.setup.planting import Planted
from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.engine.setup.called import find_called, given_for
from understudy.engine.setup.setup import user_instructions
from understudy.engine.setup.skills import find_skills, skills_named, survey_skills
from understudy.protocol.items import InputText, Message

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_files.json").read_text())
CASES: dict[str, dict[str, Any]] = RECORDED["codex"]["cases"]
SETTINGS: dict[str, dict[str, Any]] = {
    "fallbacks": {"project_doc_fallback_filenames": ["CLAUDE.md"]},
    "max_bytes": {"project_doc_max_bytes": 20},
    "off": {"understudy.skills": False},
}
OF_PROJECT = {"deep", "hidden", "inner", "noname", "other-name", "proj-agents", "proj-codex", "same", "tools", "long"}

ALL_PROGRAMS = "files of Claude Code count too, the instructions behind codex's names"
HIDDEN = "`disable-model-invocation` is obeyed"
TRUST_FIRST = "before trust nothing of a project counts but its instructions"
NOT_RUN = "nothing in a command is run, and `$1` is the first word"


def planted(tmp_path: Path, program: str, level: str = "") -> tuple[Planted, Path]:
    tree = Planted(tmp_path)
    for path, text in RECORDED[program]["files"].items():
        tree.write(tree.project / path, text)
    for path, text in RECORDED[program]["home_files"].items():
        tree.write(tree.user / path, text)
    cwd = tree.project / "a" / "b"
    if level:  # in codex that of the root holds for all folders below it; here each is trusted by itself
        marks = (f'[projects."{folder}"]\ntrust_level = "{level}"\n' for folder in (tree.project, cwd))
        (tree.home / "config.toml").write_text("".join(marks))
    return tree, cwd


def told(config: Config) -> list[str]:
    return re.findall(r"^[A-Z][A-Z-]+$", user_instructions(config) or "", re.MULTILINE)


def listed(config: Config) -> set[str]:
    return {skill.name for skill in find_skills(config, places_of(config)).listed} if config.skills else set()


def expected_of(case: str) -> tuple[list[str], set[str]]:
    """What was recorded, but for what is different here."""
    recorded = CASES[case]
    instructions = list(recorded["instructions"])
    skills = set(recorded["skills"])
    if case not in ("marked_untrusted", "max_bytes") and "B-CLAUDE" not in instructions:
        instructions.append("B-CLAUDE")  # ALL_PROGRAMS
    if skills:
        skills = (skills - {"hidden"}) | {"home-claude", "proj-claude"}  # HIDDEN, ALL_PROGRAMS
    if case in ("untrusted", "marked_untrusted"):
        skills = (skills - OF_PROJECT - {"proj-claude"}) | {"same"}  # TRUST_FIRST; one of that name is the user's own
    return instructions, skills


@pytest.mark.parametrize("case", CASES)
def test_what_reaches_the_model(tmp_path: Path, case: str) -> None:
    level = {"untrusted": "", "marked_untrusted": "untrusted"}.get(case, "trusted")
    tree, cwd = planted(tmp_path, "codex", level)
    if case == "fallbacks":
        tree.write(tree.home / "AGENTS.override.md", "HOME-OVERRIDE")
    config = tree.config(cwd, **SETTINGS.get(case, {}))
    assert (told(config), listed(config)) == expected_of(case), (ALL_PROGRAMS, HIDDEN, TRUST_FIRST)


def test_skills_that_are_named_are_given_in_order_of_their_names(tmp_path: Path) -> None:
    tree, cwd = planted(tmp_path, "codex", "trusted")
    config = tree.config(cwd)
    message = Message("user", (InputText("Use $proj-agents, $oai and $hidden"),))
    texts = [given.text() for given in skills_named([message], config, places_of(config))]
    assert [text.split("<name>")[1].split("<")[0] for text in texts] == CASES["mention"]["given"]
    path = tree.project / ".agents" / "skills" / "oai" / "SKILL.md"
    assert texts[1] == f"<skill>\n<name>oai</name>\n<path>{path}</path>\n{path.read_text()}\n</skill>"


def test_all_are_listed_for_people_and_the_broken_ones_named(tmp_path: Path) -> None:
    tree, cwd = planted(tmp_path, "codex", "trusted")
    config = tree.config(cwd)
    found = find_skills(config, places_of(config))
    names = {skill.name for skill in (*found.listed, *found.named)}
    assert names == {*RECORDED["codex"]["skills_list"]["skills"], "home-claude", "proj-claude"}, ALL_PROGRAMS
    broken = [
        each.path.removeprefix(f"{tree.project}/") for each, skill in survey_skills(config, places_of(config)) if skill is None
    ]
    assert sorted(broken) == sorted(RECORDED["codex"]["skills_list"]["errors"])


def test_what_claude_code_has_as_slash_commands_is_one_here(tmp_path: Path) -> None:
    tree, cwd = planted(tmp_path, "claude", "trusted")
    config = tree.config(cwd)
    names = {called.name for called in find_called(config, places_of(config))}
    assert set(RECORDED["claude"]["slash_commands"]) <= names
    assert not names & {"modelonly", "cmd", "rev", "homeagent"}
    command = RECORDED["claude"]["command"]
    given = given_for(command["typed"], config)
    assert given is not None
    assert command["given"] == "NESTED two one two expanded"
    assert "NESTED one one two !`echo expanded`" in given.text, NOT_RUN
