"""Tokens and cost in results, `show` and the list: by the prices that are known, and nothing where they are not."""

import pytest

from tests.cli.program import Program
from tests.e2e.talking import listed
from understudy.cli.tell.terminal import cost_text, spent_line, tokens_text
from understudy.store.log import Summary
from understudy.testing import McpProcess, ScriptedModel, say

PRICE = {"understudy.prices.mine.input": 2, "understudy.prices.mine.output": 10}


async def test_a_priced_model_is_counted_up_over_the_conversation(program: Program) -> None:
    answers = [say("a", usage=(1000, 100)), say("b", usage=(2000, 200))]
    config = {"model": "mine", **PRICE}
    async with ScriptedModel(answers) as model, McpProcess(model.url, cwd=program.cwd, home=program.home, config=config) as client:
        first = await client.call_tool("codex", prompt="one")
        thread = first["structuredContent"]["threadId"]
        assert first["structuredContent"]["report"]["cost_usd"] == pytest.approx(0.003)
        second = await client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert second["structuredContent"]["report"]["cost_usd"] == pytest.approx(0.006)
        [row] = await listed(client)
        assert (row["tokens"], row["cost_usd"]) == (3300, pytest.approx(0.009))
    [told] = program.json("conversations", "--json")
    assert (told["tokens"], told["cost_usd"]) == (3300, pytest.approx(0.009))
    header, line = program.call("conversations").out.splitlines()
    assert header.split() == ["ID", "LAST", "ACTIVE", "STATUS", "MESSAGES", "TOKENS", "COST", "FOLDER", "TITLE"]
    assert " 3.3k  $0.0090 " in line
    assert "3.3k tokens, $0.0090" in program.call("show", thread).out


async def test_a_model_without_a_price_has_tokens_and_no_cost(program: Program) -> None:
    async with (
        ScriptedModel([say("a", usage=(5, 4))]) as model,
        McpProcess(model.url, cwd=program.cwd, home=program.home, config={"model": "nobody-knows"}) as client,
    ):
        result = await client.call_tool("codex", prompt="one")
        report = result["structuredContent"]["report"]
        assert report["tokens"] == 9
        assert "cost_usd" not in report
    [told] = program.json("conversations", "--json")
    assert told["tokens"] == 9
    assert "cost_usd" not in told
    assert "COST" not in program.call("conversations").out
    assert "$" not in program.call("show", told["conversation_id"]).out.splitlines()[1]


async def test_a_provider_that_counts_nothing_shows_nothing(program: Program) -> None:
    async with ScriptedModel([say("a")]) as model, McpProcess(model.url, cwd=program.cwd, home=program.home) as client:
        report = (await client.call_tool("codex", prompt="one"))["structuredContent"]["report"]
        assert not {"tokens", "usage", "cost_usd"} & set(report)
        [row] = await listed(client)
        assert not {"tokens", "cost_usd"} & set(row)


@pytest.mark.parametrize(
    ("tokens", "cost", "line"),
    [
        (None, None, ""),
        (999, None, "999 tokens"),
        (1_500, 0.0, "1.5k tokens, $0.00"),
        (2_500_000, 12.3456, "2.5M tokens, $12.35"),
        (10, 0.00001, "10 tokens, <$0.0001"),
        (10, 0.0123, "10 tokens, $0.0123"),
    ],
)
def test_people_read_round_figures(tokens: int | None, cost: float | None, line: str) -> None:
    summary = Summary("t", "idle", 0, "/w", "m", (), tokens, cost)
    assert spent_line(summary) == line
    assert (tokens_text(tokens) + cost_text(cost) == "") == (line == "")
