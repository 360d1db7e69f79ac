"""Budgets that pause and ask: tokens, cost, seconds and requests, of a conversation and of a call."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import ANSWERS_NO_QUESTION, scene, session_of, text_of, thread_of, users_in
from tests.e2e.talking import Stream, create, listed, structured
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, hang, say

FREE: dict[str, Any] = {"sandbox_mode": "danger-full-access", "approval_policy": "on-request"}
NEVER = {**FREE, "approval_policy": "never"}
RUN = call("shell", command=["true"])
ACCEPT = {"action": "accept"}
DECLINE = {"action": "decline"}


def used(tokens: int) -> Any:
    return call("shell", command=["true"]) + say("", usage=(tokens, 0))


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_at_the_limit_a_person_is_asked_and_a_yes_raises_it(tmp_path: Path, wire: str) -> None:
    script = [used(60), used(60), used(60), say("done", usage=(60, 0))]
    config = {**FREE, "understudy.budget.tokens": 100, "understudy.wire": wire}
    async with scene(script, tmp_path, config=config) as (model, client):
        turn = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        params = question["params"]
        assert params["codex_elicitation"] == "budget"
        assert params["message"] == (
            "Go on? The budget of this conversation is used up: 120 of 100 tokens. If approved, the limit is raised to 200 tokens; "
            "if denied, the turn stops here."
        )
        event = await client.event("approval_request", turn)
        assert (event["call_id"], event["kind"]) == (params["codex_call_id"], "budget")
        [row] = await listed(client)
        assert (row["status"], row["pending"]) == ("waiting", [params["codex_call_id"]])
        assert len(model.requests) == 2
        await client.respond(question, ACCEPT)
        result = await turn
        assert text_of(result) == "done"
        assert result["structuredContent"]["report"]["tokens"] == 240
        assert len(model.requests) == 4, "200 tokens were reached with the last answer, which ends the turn"


@pytest.mark.slow
async def test_a_no_stops_the_turn_and_the_next_message_asks_again(tmp_path: Path) -> None:
    script = [used(60), say("later")]
    async with scene(script, tmp_path, config={**FREE, "understudy.budget.tokens": 50}) as (model, client):
        turn = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), DECLINE)
        result = await turn
        assert result["isError"] is True
        assert text_of(result).startswith(
            "the budget of this conversation is used up: 60 of 50 tokens, and it was not raised. Nothing is lost: "
        )
        again = client.call_tool("codex-reply", threadId=thread_of(result), prompt="more")
        await client.respond(await client.next_request("elicitation/create"), ACCEPT)
        assert text_of(await again) == "later"
        assert users_in(model.requests[1]) == ["go", "more"]


@pytest.mark.slow
async def test_under_never_the_turn_ends_and_nothing_is_lost(tmp_path: Path) -> None:
    async with scene([used(60), say("later")], tmp_path, config={**NEVER, "understudy.budget.tokens": 50}) as (model, client):
        result = await client.call_tool("codex", prompt="go")
        assert result["isError"] is True
        assert "Nobody is asked under the approval policy `never`." in text_of(result)
        refused = await client.call_tool("codex-reply", threadId=thread_of(result), prompt="more")
        assert "is used up" in text_of(refused)
        assert len(model.requests) == 1
        content = [{"type": "text", "text": "and more"}]
        arguments = {"conversation_id": thread_of(result), "content": content, "config": {"understudy.budget.tokens": 500}}
        stream = Stream(client, thread_of(result))
        await stream.snapshot()
        assert structured(await client.call_tool("conversationSendMessage", arguments)) == {"status": "ok"}
        await stream.until("agent_message")
        assert users_in(model.requests[1]) == ["go", "more", "and more"], "what was not read yet is read now"


async def test_where_nobody_can_be_asked_the_turn_ends_and_says_why(tmp_path: Path) -> None:
    config = {**FREE, "understudy.budget.requests": 1}
    async with scene([RUN], tmp_path, config=config, capabilities=ANSWERS_NO_QUESTION) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert result["isError"] is True
        assert "1 of 1 requests, and it was not raised (the client cannot be asked for approval" in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"tokens": 50}, {"requests": 1}, {"costUsd": 0.00005}, {"cost_usd": 0.00005}])
async def test_a_call_has_a_budget_of_its_own(tmp_path: Path, limit: dict[str, float]) -> None:
    price = {"model": "mine", "understudy.prices.mine.input": 1, "understudy.prices.mine.output": 1}
    script = [used(60), used(60), say("done")]
    async with scene(script, tmp_path, config={**NEVER, **price, "understudy.budget.call.tokens": 500}) as (_, client):
        first = await client.call_tool("codex", prompt="go", budget=limit)
        assert text_of(first).startswith("the budget of this call is used up: ")
        second = await client.call_tool("codex-reply", threadId=thread_of(first), prompt="more")
        assert text_of(second) == "done", "the other calls have the configured one"


@pytest.mark.slow
async def test_raising_a_call_raises_no_other(tmp_path: Path) -> None:
    script = [RUN, RUN, say("one"), RUN, say("two")]
    async with scene(script, tmp_path, config={**FREE, "understudy.budget.call.requests": 1}) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        for allowed in ("2", "3"):
            question = await client.next_request("elicitation/create")
            assert f"raised to {allowed} requests" in question["params"]["message"]
            await client.respond(question, ACCEPT)
        again = client.call_tool("codex-reply", threadId=thread_of(await turn), prompt="more")
        question = await client.next_request("elicitation/create")
        assert "this call is used up: 1 of 1 requests" in question["params"]["message"]
        await client.respond(question, ACCEPT)
        assert text_of(await again) == "two"


@pytest.mark.slow
async def test_a_request_that_takes_more_than_all_of_it_is_asked_about_once(tmp_path: Path) -> None:
    async with scene([used(1050), say("done")], tmp_path, config={**FREE, "understudy.budget.tokens": 100}) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert "1,050 of 100 tokens. If approved, the limit is raised to 1,100 tokens" in question["params"]["message"]
        await client.respond(question, ACCEPT)
        assert text_of(await turn) == "done"


@pytest.mark.slow
async def test_seconds_run_out_while_the_model_answers_and_what_it_said_is_not_said_twice(tmp_path: Path) -> None:
    script = [deltas(["half ", HOLD]), say("half and whole")]
    options: dict[str, Any] = {"cwd": tmp_path, "config": FREE, "decide": "approved"}  # on a slow machine more than once
    async with ScriptedModel(script) as model, McpProcess(model.url, **options) as client:
        turn = client.call_tool("codex", prompt="go", budget={"seconds": 2.5})
        assert text_of(await turn) == "half and whole"
        assert "of 2.5 seconds. If approved, the limit is raised to" in client.questions[0].message
        said = "".join(event["delta"] for event in client.events(turn) if event["type"] == "agent_message_delta")
        assert said == "half and whole"


@pytest.mark.slow
async def test_a_stop_while_the_model_answers_keeps_what_it_said(tmp_path: Path) -> None:
    script = [deltas(["half ", HOLD]), say("well")]
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=tmp_path, config=NEVER) as client:
        result = await client.call_tool("codex", prompt="go", budget={"seconds": 6})
        assert "of 6.0 seconds" in text_of(result)
        await client.call_tool("codex-reply", threadId=thread_of(result), prompt="more")
        assert {"role": "assistant", "content": "half "} in model.requests[1]["messages"]


@pytest.mark.slow
async def test_the_question_is_asked_again_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    config = {**FREE, "understudy.budget.requests": 1}
    async with ScriptedModel([RUN, say("done")]) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=config) as first:
            begun = first.call_tool("codex", prompt="go")
            thread = await session_of(first, begun)
            asked = await first.next_request("elicitation/create")
            await first.kill()
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=config) as second:
            [row] = await listed(second)
            assert row["pending"] == [asked["params"]["codex_call_id"]]
            resumed = second.call_tool("codex-reply", threadId=thread, prompt="well?")
            again = await second.next_request("elicitation/create")
            assert again["params"]["message"] == asked["params"]["message"]
            assert len(model.requests) == 1
            await second.respond(again, ACCEPT)
            assert text_of(await resumed) == "done"


@pytest.mark.slow
async def test_a_raise_outlives_the_process(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    config = {**FREE, "understudy.budget.requests": 1}
    async with ScriptedModel([RUN, say("one")]) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=config) as first:
            turn = first.call_tool("codex", prompt="go")
            await first.respond(await first.next_request("elicitation/create"), ACCEPT)
            thread = thread_of(await turn)
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=config) as second:
            again = second.call_tool("codex-reply", threadId=thread, prompt="more")
            question = await second.next_request("elicitation/create")
            assert "2 of 2 requests. If approved, the limit is raised to 3" in question["params"]["message"]
            await second.respond(question, DECLINE)
            assert (await again)["isError"] is True
        assert len(model.requests) == 2


@pytest.mark.slow
async def test_a_question_can_be_answered_through_the_conversation_door(tmp_path: Path) -> None:
    async with scene([RUN, say("done")], tmp_path, config=FREE, capabilities=ANSWERS_NO_QUESTION) as (_, client):
        conversation = await create(client, prompt="go", budget={"requests": 1})
        stream = Stream(client, conversation)
        asked = await stream.until("approval_request")
        arguments = {"conversation_id": conversation, "call_id": asked["call_id"], "decision": "approved"}
        assert structured(await client.call_tool("conversationApprove", arguments)) == {"status": "ok"}
        await stream.until("task_complete")
        assert "agent_message" in stream.kinds()


@pytest.mark.slow
async def test_a_call_that_joins_brings_its_own_budget_from_then_on(tmp_path: Path) -> None:
    script = [RUN, deltas(["a", HOLD]), RUN, say("done")]
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=tmp_path, config=FREE) as client:
        first = client.call_tool("codex", prompt="go")
        thread = await session_of(client, first)
        await client.event("agent_message_delta", first)
        second = client.call_tool("codex-reply", threadId=thread, prompt="and this", budget={"requests": 1})
        stream = Stream(client, thread, after=0)
        await stream.until("user_message", 2)
        model.release()
        question = await client.next_request("elicitation/create")
        assert "the budget of this call is used up: 1 of 1 requests" in question["params"]["message"].lower()
        await client.respond(question, ACCEPT)
        assert text_of(await first) == text_of(await second) == "done"


@pytest.mark.slow
async def test_two_conversations_have_a_budget_each(tmp_path: Path) -> None:
    async with scene([used(60)] * 2, tmp_path, config={**NEVER, "understudy.budget.tokens": 50}) as (_, client):
        calls = [client.call_tool("codex", prompt="go") for _ in range(2)]
        for made in calls:
            assert "60 of 50 tokens" in text_of(await made)


@pytest.mark.slow
async def test_a_cost_budget_needs_a_price(tmp_path: Path) -> None:
    async with scene([], tmp_path, config={**FREE, "model": "unheard-of"}) as (_, client):
        for arguments in ({"budget": {"cost_usd": 1}}, {"config": {"understudy.budget.cost_usd": 1}}):
            result = await client.call_tool("codex", {"prompt": "go", **arguments})
            assert result["isError"] is True
            assert "there is none for the model `unheard-of`" in text_of(result)
            assert '[understudy.prices."unheard-of"]' in text_of(result)


@pytest.mark.slow
async def test_a_provider_that_counts_nothing_cannot_be_held_to_tokens(tmp_path: Path) -> None:
    async with scene([RUN], tmp_path, config={**NEVER, "understudy.budget.tokens": 50}) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert "the provider reports no tokens" in text_of(result)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("budget", "complaint"),
    [
        (5, "invalid type: integer `5`, expected a map"),
        ({"token": 5}, "Did you mean `tokens`?"),
        ({"tokens": 0}, "expected a number above 0 for `tokens`"),
        ({"tokens": 1.5}, "expected u64 for `tokens`"),
        ({"seconds": "5"}, "expected f64 for `seconds`"),
        ({"requests": True}, "expected u64 for `requests`"),
    ],
)
async def test_a_budget_that_cannot_be_read_is_refused(tmp_path: Path, budget: Any, complaint: str) -> None:
    async with scene([], tmp_path) as (_, client):
        result = await client.call_tool("codex", prompt="go", budget=budget)
        assert result["isError"] is True
        assert complaint in text_of(result)
        assert text_of(result).endswith("in `budget`")


async def test_a_slip_in_the_configuration_lets_nothing_run(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client):
        for key, value in (("understudy.budget.token", 5), ("understudy.budget.tokens", 0), ("understudy.budget", 7)):
            result = await client.call_tool("codex", prompt="go", config={key: value})
            assert result["isError"] is True
            assert "understudy.budget" in text_of(result)


@pytest.mark.slow
async def test_a_hanging_model_is_left_when_seconds_run_out(tmp_path: Path) -> None:
    config = {**NEVER, "understudy.budget.call.seconds": 6}
    async with scene([hang()], tmp_path, config=config) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert " of 6.0 seconds" in text_of(result)
