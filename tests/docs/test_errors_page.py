"""docs/errors.md has every message that somebody can meet, each under a cause and a remedy."""

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "errors.md").read_text()
BEHIND = 40  # messages that the page may lack, or have though nobody says them any more, until it is made anew
GENERATOR: dict[str, Any] = runpy.run_path(str(DOCS / "generate_errors.py"))


def listed() -> list[str]:
    return re.findall(r"^- `` (.+) ``$", PAGE, re.MULTILINE)


@pytest.mark.slow
def test_every_message_belongs_to_a_cause() -> None:
    groups, left = GENERATOR["grouped"]()
    assert left == [], "say in docs/generate_errors.py what they are about"
    assert [group.title for group in groups if not (group.cause and group.remedy)] == []


def test_every_kind_of_error_has_one() -> None:
    named = {kind for group in GENERATOR["all_groups"]() for kind in group.kinds}
    assert GENERATOR["kinds"]() - named == set()


@pytest.mark.slow
def test_the_page_has_the_groups_and_the_messages() -> None:
    made = GENERATOR["render"]()
    said = set(re.findall(r"^- `` .+ ``$", made, re.MULTILINE))
    listed_now = set(re.findall(r"^- `` .+ ``$", PAGE, re.MULTILINE))
    differing = sorted(said ^ listed_now)
    assert len(differing) <= BEHIND, f"run: python docs/generate_errors.py; among others the page differs in {differing[:5]}"
    assert re.findall(r"^(?:## |\*\*).*$", made, re.MULTILINE) == re.findall(r"^(?:## |\*\*).*$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "ffffffff"),
        ("open",),
        ("token", "revoke", "nobody"),
        ("token", "add", "a b"),
        ("export", "--last"),
        ("app-server", "--listen", "ws://localhost:1"),
        ("app-server", "--listen", "ws://0.0.0.0:0"),
        ("serve", "--no-auth", "--host", "0.0.0.0"),
        ("serve", "--port", "0", "--tls-cert", "nowhere.pem"),
        ("import", "nowhere.jsonl"),
        ("mcp", "remove", "nothing"),
        ("exec", "-c", "approval_policy=1", "hello"),
        ("search", "!!"),
    ],
    ids=" ".join,
)
def test_what_a_person_is_told_is_found_there(program: Program, words: Sequence[str]) -> None:
    ended = program.call(*words)
    assert ended.code in (1, 2)
    told = " ".join(ended.err.split())
    patterns = [".+?".join(map(re.escape, message.split("…"))) for message in listed()]
    assert any(re.search(pattern, told) for pattern in patterns), told


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return Program(tmp_path / "home" / ".codex", tmp_path / "work")
