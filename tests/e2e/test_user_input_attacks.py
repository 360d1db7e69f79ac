"""Questions to the user attacked: what a model may ask, what an answer may look like, two at once, and who may give it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, told_to_model
from tests.e2e.test_user_input import ASK, COLOUR, NAME
from tests.support.rest_client import RestClient, serving_rest
from understudy.testing import ScriptedModel, call, say, text_of


def ask(*questions: Any) -> Any:
    return call("request_user_input", questions=list(questions))


ODD_QUESTIONS: list[tuple[str, Any]] = [
    ("none", ask()),
    ("not a list", call("request_user_input", questions="colour?")),
    ("no arguments", call("request_user_input")),
    ("too many", ask(*({**NAME, "id": f"q{number}"} for number in range(50)))),
    ("twice", ask(COLOUR, COLOUR)),
    ("no id", ask({"header": "H", "question": "Q?"})),
    ("empty id", ask({**NAME, "id": ""})),
    ("long id", ask({**NAME, "id": "x" * 100_000})),
    ("odd id", ask({**NAME, "id": "__proto__"}, {**COLOUR, "id": "a b\u202e\n"})),
    ("no text", ask({**NAME, "question": " \n"})),
    ("long text", ask({**NAME, "question": "x" * 1_000_000})),
    ("many options", ask({**COLOUR, "options": [{"label": f"l{n}", "description": "d"} for n in range(1000)]})),
    ("same options", ask({**COLOUR, "options": [{"label": "l", "description": "d"}] * 2})),
    ("empty option", ask({**COLOUR, "options": [{"label": "", "description": ""}, {"label": "b", "description": ""}]})),
    ("options are texts", ask({**COLOUR, "options": ["Red", "Blue"]})),
    ("null options", ask({**COLOUR, "options": None})),
    ("escapes", ask({**COLOUR, "header": "\x1b[31mX\u202e", "question": "\x1b]0;t\x07Which?\u2028?"})),
]


@pytest.mark.parametrize("asked", [asked for _, asked in ODD_QUESTIONS], ids=[name for name, _ in ODD_QUESTIONS])
@pytest.mark.slow
async def test_whatever_a_model_asks_the_turn_comes_to_its_end(tmp_path: Path, asked: Any) -> None:
    """Either the model is told what is wrong with it, or a person can read and answer it."""
    async with scene([asked, say("Well.")], tmp_path, protocol_version="2025-11-25") as (model, client):
        running = client.codex("go")
        question = asyncio.ensure_future(client.next_request("elicitation/create"))
        answered = asyncio.ensure_future(asyncio.wait_for(running, 60))
        done, _ = await asyncio.wait({question, answered}, return_when=asyncio.FIRST_COMPLETED)
        if question in done:
            request = question.result()
            shown = json.dumps(request["params"])
            assert len(shown) < 100_000
            assert not {"\\u001b", "\\u202e", "\\u2028"} & {shown[at : at + 6] for at in range(len(shown))}
            schema = request["params"]["requestedSchema"]["properties"]
            assert all(name.strip() for name in schema)
            first = next(iter(schema))
            await client.respond(request, {"action": "accept", "content": {first: schema[first].get("enum", ["x"])[0]}})
        else:
            question.cancel()
        assert text_of(await answered).startswith("Well.")
        assert told_to_model(model.requests[1])


ODD_ANSWERS: list[Any] = [
    None, [], "red", {"color": 5}, {"color": None}, {"color": [1]}, {"color": {"answers": ["Red"]}}, {"color": ["x"] * 1000},
    {"color": "x" * 100_000}, {"color": ""}, {}, {"color": "\ud800"}, {"": "x"}, {"__proto__": "x"}, {"color": [["Red"]]},
]  # fmt: skip


async def open_question(client: RestClient, cwd: Path) -> str:
    row = await client.create(cwd, "paint it")
    stream = await client.stream(row["id"])
    await stream.until("approval_request")
    return str(row["id"])


async def test_odd_answers_are_refused_and_the_question_stays(tmp_path: Path) -> None:
    async with ScriptedModel([ASK, say("Painted.")]) as model, serving_rest(tmp_path, model) as (server, client):
        thread = await open_question(client, server.cwd)
        path = f"/v1/conversations/{thread}/answers"
        for answers in ODD_ANSWERS:
            status, code = await client.status("POST", path, {"call_id": "call1", "answers": answers})
            assert (status, code) in ((400, "bad_request"), (400, "invalid_arguments"), (400, "invalid_body")), (
                answers,
                status,
                code,
            )
        for call_id in ("call2", "", 5, None):
            status, _ = await client.status("POST", path, {"call_id": call_id, "answers": {"color": "Red"}})
            assert status in (400, 404, 409), call_id
        assert (await client.get(f"/v1/conversations/{thread}"))["questions"]
        both = [client.status("POST", path, {"call_id": "call1", "answers": {"color": word}}) for word in ("Red", "Blue")]
        found = await asyncio.gather(*both)
        assert sorted(status for status, _ in found) == [200, 409]
        stream = await client.stream(thread)
        await stream.until("task_complete")
        assert len(json.loads(told_to_model(model.requests[1]).split("\n")[0])["answers"]["color"]["answers"]) == 1


async def test_who_may_not_answer_does_not(tmp_path: Path) -> None:
    async with ScriptedModel([ASK, say("Painted.")]) as model, serving_rest(tmp_path, model) as (server, client):
        thread = await open_question(client, server.cwd)
        path = f"/v1/conversations/{thread}/answers"
        body = {"call_id": "call1", "answers": {"color": "Red"}}
        reader = RestClient(server.port, await server.add_token("reader", "--rights", "read", "--others", "read"))
        stranger = RestClient(server.port, await server.add_token("stranger"))
        assert (await reader.status("POST", path, body))[0] == 403
        assert (await stranger.status("POST", path, body))[0] == 404
        assert (await RestClient(server.port, "nobody").status("POST", path, body))[0] == 401
        assert len(model.requests) == 1
        assert (await client.status("POST", path, body))[0] == 200
        stream = await client.stream(thread)
        await stream.until("task_complete")
