"""The pages that newcomers read first: the index, the messages that they may meet, and the configuration to start from."""

import re
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.docs.links import LINK, anchors

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


INSTALLING = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "recipes.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("command", "network"),
    [("npm ci", "on"), ("uv sync", "on"), (".venv/bin/pip install x", "on"), ("cargo fetch", "on"), ("cargo build", "off")],
)
def test_the_recipe_gives_the_network_to_those_that_install(tmp_path: Path, command: str, network: str) -> None:
    (tmp_path / ".codex").mkdir()
    program = Program(tmp_path / ".codex", tmp_path)
    [rules] = [block for block in INSTALLING if "cargo" in block]
    program.configure(rules)
    told = program.call("policy", "check", "--", *command.split()).out
    assert re.search(rf"^decision +allow$.*^network +{network}$", told, re.MULTILINE | re.DOTALL), told


# What newcomers ask, the page that the index leads to, and where the answer is: on that page, or on one to which it leads.
QUESTIONS = [
    ("How do I install it?", "../README.md", "../README.md#install"),
    ("How do I try it without a key?", "quickstart.md", "quickstart.md"),
    ("How do I give it my key?", "models.md", "providers.md#openai"),
    ("Can it use Claude?", "models.md", "providers.md#anthropic"),
    ("Can it use a model on my machine?", "providers.md", "providers.md#ollama"),
    ("How do I connect my editor?", "clients.md", "clients.md#editors"),
    ("What does this message mean?", "errors.md", "errors.md"),
    ("Why was my command refused?", "policy.md", "sandbox.md"),
    ("How do I let it commit?", "recipes.md", "recipes.md#let-it-commit"),
    ("How do I let it install packages?", "recipes.md", "recipes.md#let-it-install-packages"),
    ("What may it do on my machine?", "security.md", "security.md#commands"),
    ("How do I take back what it did?", "conversations.md", "conversations.md#undo"),
    ("How do I continue a conversation?", "conversations.md", "conversations.md"),
    ("What does it cost?", "models.md", "models.md#prices"),
    ("How do I bound what it costs?", "recipes.md", "configuration.md#budgets"),
    ("How do I have a pull request reviewed?", "ci.md", "ci.md#github-actions"),
    ("How do several people use one server?", "serve.md", "serve.md#who-may-call"),
    ("How do I put nginx before it?", "proxies.md", "proxies.md#nginx"),
    ("How do I upgrade?", "recipes.md", "recipes.md#upgrade"),
    ("How do I uninstall it, and what stays?", "recipes.md", "recipes.md#uninstall"),
]


@pytest.mark.parametrize(("question", "first", "answer"), QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
def test_a_newcomer_finds_the_answer_in_two_clicks(question: str, first: str, answer: str) -> None:
    assert first in LINK.findall((DOCS / "README.md").read_text()), question
    page, _, place = answer.partition("#")
    led_to = {link.partition("#")[0] for link in LINK.findall((DOCS / first).read_text())}
    assert page == first or page in led_to
    assert not place or place in anchors(DOCS / page)
