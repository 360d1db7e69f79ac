"""`understudy model list`: what a provider has, what is known of it, and what is said when it cannot be asked."""

import json
from typing import Any

import pytest

from tests.cli.program import Program
from tests.models.loopback import HANG, loopback, status

OWN = """
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "{url}"
env_key = "MINE_KEY"
"""
KEY = "sk-mine-0123456789"


def rows(out: str) -> dict[str, Any]:
    return {row["id"]: row for row in json.loads(out)["models"]}


async def test_the_providers_models_are_listed_with_what_is_known_of_each(program: Program) -> None:
    body = {"data": [{"id": "gpt-5"}, {"id": "my-own", "max_model_len": 4096}, {"id": "text-embedding-3"}]}
    async with loopback(status(200, "OK", json.dumps(body))) as server:
        program.configure(OWN.format(url=server.url))
        ended = await program.run_aside("model", "list", "--json", env={"MINE_KEY": KEY})
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) | {"models": None} == {"provider": "mine", "asked": True, "problem": None, "models": None}
    listed = rows(ended.out)
    assert list(listed) == ["gpt-5", "my-own"]
    assert (listed["gpt-5"]["context_window"], listed["gpt-5"]["price"]["input"]) == (400_000, 1.25)
    unknown = {key: value for key, value in listed["my-own"].items() if key not in ("id", "current", "efforts")}
    assert unknown == {**dict.fromkeys(unknown), "context_window": 4096}
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.slow
async def test_the_text_leaves_blank_what_is_not_known(program: Program) -> None:
    async with loopback(status(200, "OK", '{"data": [{"id": "my-own"}, {"id": "gpt-5"}]}')) as server:
        program.configure('model = "gpt-5"\n' + OWN.format(url=server.url))
        ended = await program.run_aside("model", "list", env={"MINE_KEY": KEY})
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[1].split() == ["my-own"]
    assert lines[2].split() == ["*", "gpt-5", "400,000", "128,000", "yes", "yes", "grammar", "1.25", "0.125", "10"]
    assert lines[3].startswith("Prices in USD")


def test_where_the_provider_cannot_be_reached_that_is_said_and_the_table_is_shown(program: Program) -> None:
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    ended = program.run("model", "list", "--provider", "anthropic", env=env)
    assert ended.code == 0
    assert "claude-opus-5-5" in ended.out
    assert "anthropic could not be asked for its models: cannot connect" in ended.err
    assert KEY not in ended.out + ended.err


def test_a_missing_key_is_named(program: Program) -> None:
    ended = program.call("model", "list", "--provider", "anthropic")
    assert "`ANTHROPIC_API_KEY`" in ended.err
    assert "claude-sonnet-5-5" in ended.out


@pytest.mark.slow
async def test_a_provider_that_hangs_is_given_up(program: Program) -> None:
    async with loopback([HANG]) as server:
        program.configure(OWN.format(url=server.url))
        ended = await program.run_aside("model", "list", "--json", env={"MINE_KEY": KEY})
    assert ended.code == 0
    assert json.loads(ended.out)["asked"] is False
    assert json.loads(ended.out)["problem"]


def test_an_unknown_provider_is_an_error_that_names_the_known_ones(program: Program) -> None:
    ended = program.call("model", "list", "--provider", "nowhere")
    assert ended.code == 1
    assert "`ollama`" in ended.err
