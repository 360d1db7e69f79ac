"""Skills and commands of both programs: where they are found, who may use them, and the text that a call makes."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.setup.planting import Planted
from understudy.config.sandbox import places_of
from understudy.engine.setup.called import MOST_SPELLED_OUT, Called, find_called, given_for, spell_out
from understudy.engine.setup.disk import MOST_BYTES, MOST_DEPTH
from understudy.engine.setup.skills import Skills, find_skills, skills_named
from understudy.errors import BadRequest, ConfigError
from understudy.protocol.items import InputText, Message


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def skills(planted: Planted) -> Skills:
    config = planted.config()
    return find_skills(config, places_of(config))


def listed(planted: Planted) -> list[str]:
    return [skill.name for skill in skills(planted).listed]


def called(planted: Planted) -> dict[str, Called]:
    config = planted.config()
    return {each.name: each for each in find_called(config, places_of(config))}


def named(planted: Planted, text: str) -> list[str]:
    config = planted.config()
    return [message.text() for message in skills_named([Message("user", (InputText(text),))], config, places_of(config))]


def spelled(planted: Planted, text: str) -> str | None:
    found = given_for(text, planted.config())
    return None if found is None else found.text


def test_skills_of_all_homes_and_of_a_trusted_project_are_found_at_any_depth(planted: Planted) -> None:
    for folder in (".codex", ".agents", ".claude"):
        planted.skill(planted.user / folder / "skills" / f"own{folder}")
        planted.skill(planted.project / folder / "skills" / "group" / f"project{folder}")
    assert listed(planted) == ["own.agents", "own.claude", "own.codex"]
    planted.trust()
    assert listed(planted) == ["own.agents", "own.claude", "own.codex", "project.agents", "project.claude", "project.codex"]
    assert [skill.scope for skill in skills(planted).listed].count("repo") == 3


def test_front_matter_of_both_programs_says_who_may_use_a_skill(planted: Planted) -> None:
    home = planted.user / ".claude" / "skills"
    planted.skill(home / "both")
    planted.skill(home / "people", "disable-model-invocation: true\n")
    planted.skill(home / "models", 'user-invocable: "false"\n')
    planted.skill(home / "codexs")
    planted.write(home / "codexs" / "agents" / "openai.yaml", "policy:\n  allow_implicit_invocation: false\n")
    planted.skill(home / "both" / "part", description="Belongs to the skill above it.")
    assert listed(planted) == ["both", "models"]
    assert set(called(planted)) == {"both", "people", "codexs"}
    [text] = named(planted, "Use $people, please.")
    path = home / "people" / "SKILL.md"
    assert text.startswith(f"<skill>\n<name>people</name>\n<path>{path}</path>\n---\n")
    assert text.endswith("Body of people.\n\n</skill>")
    assert named(planted, "$models costs $5, $nothing, both") == []
    assert [text.split("\n")[1] for text in named(planted, "$codexs. and $both: $both")] == [
        "<name>both</name>",
        "<name>codexs</name>",
    ]


def test_a_project_s_skill_is_given_as_it_was_trusted(planted: Planted) -> None:
    path = planted.skill(planted.project / ".claude" / "skills" / "x")
    assert named(planted, "$x") == []
    planted.trust()
    assert "Body of x." in named(planted, "$x")[0]
    path.write_text(path.read_text() + "More.\n")
    assert named(planted, "$x") == []


def test_commands_have_the_name_of_their_path_and_take_words(planted: Planted) -> None:
    own, project = planted.user / ".claude" / "commands", planted.project
    planted.write(
        own / "sub" / "fix.md", "---\ndescription: Fix it.\nargument-hint: NUMBER\n---\nFix $1, not $2; all: $ARGUMENTS. $3!\n"
    )
    planted.write(planted.home / "prompts" / "plain.md", "Say hello.\n")
    planted.write(project / ".claude" / "commands" / "review.md", "Of the project. !`touch made`\n")
    planted.write(project / ".codex" / "prompts" / "plain.md", "Of the project, $1.\n")
    assert set(called(planted)) == {"sub:fix", "plain"}
    found = called(planted)["sub:fix"]
    assert (found.description, found.hint) == ("Fix it.", "NUMBER")
    text = spelled(planted, '/sub:fix "one two" three')
    assert text is not None
    assert text.startswith("\n\n<command>\n<name>sub:fix</name>\n")
    assert 'Fix one two, not three; all: "one two" three. $3!' in text
    assert "Say hello.\n\nARGUMENTS: loudly" in (spelled(planted, "/plain loudly") or "")
    planted.trust()
    assert set(called(planted)) == {"sub:fix", "plain", "review"}
    assert "Of the project, $2." in (spelled(planted, "/plain $2") or ""), "what was put in is not looked at again"
    assert "!`touch made`" in (spelled(planted, "/REVIEW") or "")
    assert not (project / "made").exists()
    assert [spelled(planted, text) for text in ("/none", "/etc/hosts", "plain", "/ plain", "")] == [None] * 5


def test_a_call_cannot_be_made_to_fill_the_memory(planted: Planted) -> None:
    planted.write(planted.home / "prompts" / "bomb.md", "$ARGUMENTS " * 20_000)
    config = planted.config()
    bomb = called(planted)["bomb"]
    with pytest.raises(BadRequest, match=f"{MOST_SPELLED_OUT} characters are the most"):
        spell_out(bomb, "x" * 100_000, config, places_of(config))


def test_odd_names_do_not_count(planted: Planted) -> None:
    prompts = planted.home / "prompts"
    for name in ("a\u200bb", "\u202ex", "a b", "x\ny", "-rf", "größe", "Fix", "fix", "e\u0301te"):
        planted.write(prompts / f"{name}.md", f"Body of {name!r}.")
    planted.write(prompts / "empty.md", " \n")
    planted.write(prompts / "large.md", "x" * (MOST_BYTES + 1))
    assert set(called(planted)) == {"größe", "Fix", "\u00e9te"}


def test_hostile_trees_of_a_project_are_not_followed(planted: Planted, tmp_path: Path) -> None:
    secret = planted.write(tmp_path / "secret.md", "private")
    commands = planted.project / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "link.md").symlink_to(secret)
    (commands / "folder").symlink_to(tmp_path)
    os.mkfifo(commands / "pipe.md")
    (planted.project / ".agents").symlink_to(planted.user)
    (planted.project / ".claude" / "skills").mkdir()
    (planted.project / ".claude" / "skills" / "x").mkdir()
    os.mkfifo(planted.project / ".claude" / "skills" / "x" / "SKILL.md")
    planted.trust()
    assert called(planted) == {}
    assert listed(planted) == []


def test_hostile_trees_of_a_home_are_bounded(planted: Planted) -> None:
    folder = planted.user / ".agents" / "skills"
    planted.skill(folder / "good")
    (folder / "loop").symlink_to(folder)
    (folder / "up").symlink_to(planted.user)
    deep = folder.joinpath(*("d" * (MOST_DEPTH + 3)))
    planted.skill(deep / "too-deep")
    os.mkfifo(planted.write(planted.user / ".claude" / "commands" / "x.md", "x").with_name("pipe.md"))
    began = time.monotonic()
    assert listed(planted) == ["good"]
    assert set(called(planted)) == {"good", "x"}
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_ten_thousand_skills_of_a_project_are_too_many_to_trust(planted: Planted) -> None:
    for number in range(10_000):
        planted.skill(planted.project / ".claude" / "skills" / f"s{number}")
    with pytest.raises(ConfigError, match="hold too much to check"):
        planted.trust()
    assert listed(planted) == []
    assert called(planted) == {}


@pytest.mark.parametrize(
    "head",
    [
        "---\n" + "a: " + "&x [" * 4000,
        "---\nname: x\ndescription: " + "y" * 100_000 + "\n---\n",
        "---\n" + "k: v\n" * 100_000,
        "---\n\0\n---",
    ],
)
def test_bombs_of_front_matter_are_no_skills(planted: Planted, head: str) -> None:
    planted.write(planted.user / ".claude" / "skills" / "bomb" / "SKILL.md", head)
    assert listed(planted) == []


@given(st.text(alphabet="$ARGUMENTS129 \"'\\x", max_size=40), st.text(alphabet="a \"'$1\\", max_size=20))
def test_any_body_and_any_words_make_a_text(body: str, words: str) -> None:
    spell_out(Called("x", "", "", "/x", body=body), words, None, None)  # type: ignore[arg-type]
