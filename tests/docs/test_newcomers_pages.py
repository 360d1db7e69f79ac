"""The pages that newcomers read first: the index, the messages that they may meet, and the configuration to start from."""

import re
from pathlib import Path

import pytest

from tests.cli.program import Program

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SAMPLE = (DOCS / "config.toml").read_text()


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.(?:md|toml))\)", (DOCS / "README.md").read_text()))
    assert linked == {path.name for path in [*DOCS.glob("*.md"), *DOCS.glob("*.toml")]} - {"README.md"}


def test_the_messages_of_the_table_are_those_of_the_program() -> None:
    source = "".join(path.read_text() for folder in ("src", "scripts") for path in sorted((ROOT / folder).rglob("*.py")))
    said = re.sub(r"\{[^{}]*\}|%s", "…", re.sub(r'"\s+f?"', "", source))  # literals that follow each other are one
    table = (DOCS / "troubleshooting.md").read_text().partition("## What messages mean")[2].partition("\n## ")[0]
    messages = [
        found for row in table.splitlines() if row.startswith("| `") for found in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    ]
    assert len(messages) >= 20
    pieces = {message: [piece.strip() for piece in message.split("…") if len(piece.strip()) > 3] for message in messages}
    assert [message for message, parts in pieces.items() if not all(part in said for part in parts)] == []


@pytest.mark.parametrize("wanted", ["as it is", "with all that is commented out"])
def test_the_configuration_to_start_from_is_understood(tmp_path: Path, wanted: str) -> None:
    (tmp_path / ".codex").mkdir()
    program = Program(tmp_path / ".codex", tmp_path)
    text = SAMPLE if wanted == "as it is" else re.sub(r"^# (?=\[|\w+ = )", "", SAMPLE, flags=re.MULTILINE)
    (program.home / "config.toml").write_text(text)
    checked = program.call("config", "check")
    assert (checked.code, checked.out.endswith("all is well\n")) == (0, True), checked.out + checked.err
