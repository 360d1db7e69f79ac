"""What the model wants to know of the user: put at every door, answered from any, also days and restarts later."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, told_to_model
from tests.e2e.test_tasks_on_stdio import COMMAND, META, PREFIX
from tests.support.acp_client import AcpClient
from tests.support.app_client import AppClient
from tests.support.rest_client import serving_rest
from understudy.testing import CodexHome, LineProcess, McpProcess, ScriptedModel, call, say, text_of

COLOUR: dict[str, Any] = {
    "id": "color",
    "header": "Colour",
    "question": "Which colour?",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}
NAME: dict[str, Any] = {"id": "name", "header": "Name", "question": "What is it called?"}
ASK = call("request_user_input", questions=[COLOUR, NAME])
AGAIN = call("request_user_input", call_id="again", questions=[COLOUR, NAME])
SCRIPT = [ASK, say("Painted.")]


def told(request: dict[str, Any]) -> Any:
    return json.loads(told_to_model(request))["answers"]


async def test_an_mcp_client_is_asked_by_a_form_with_a_field_for_each_question(tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, protocol_version="2025-11-25") as (model, client):
        call_ = client.codex("paint it")
        question = await client.next_request("elicitation/create")
        params = question["params"]
        assert "Colour: Which colour?" in params["message"]
        assert "1. Red: warm" in params["message"]
        properties = params["requestedSchema"]["properties"]
        assert list(properties) == ["color", "color_other", "name"]
        assert properties["color"]["enum"] == ["Red", "Blue"]
        assert params["requestedSchema"]["required"] == ["name"]
        assert "enum" not in properties["name"]
        await client.respond(question, {"action": "accept", "content": {"color": "Blue", "name": "Bob"}})
        assert text_of(await call_) == "Painted."
        assert told(model.requests[1]) == {"color": {"answers": ["Blue"]}, "name": {"answers": ["Bob"]}}


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ({"color": "", "color_other": "Green, like grass"}, ["Green, like grass"]),
        ({"color": "Red", "color_other": "but darker"}, ["Red", "but darker"]),
        ({"color": "Red", "color_other": None}, ["Red"]),
        ({"color_other": 7}, ["7"]),
        ({"color": "Green"}, ["Green"]),  # from a client that takes words in the field itself
    ],
)
@pytest.mark.quick(2)
async def test_a_form_takes_own_words_where_there_are_options(content: Any, answers: list[str], tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, protocol_version="2025-11-25") as (model, client):
        call_ = client.codex("paint it")
        question = await client.next_request("elicitation/create")
        await client.respond(question, {"action": "accept", "content": {**content, "name": "Bob"}})
        assert text_of(await call_) == "Painted."
        assert told(model.requests[1])["color"] == {"answers": answers}


async def test_a_field_for_own_words_takes_no_name_of_a_question(tmp_path: Path) -> None:
    other = {**NAME, "id": "color_other"}
    async with scene([call("request_user_input", questions=[COLOUR, other]), say("Ok.")], tmp_path) as (model, client):
        call_ = client.codex("paint it")
        question = await client.next_request("elicitation/create")
        assert list(question["params"]["requestedSchema"]["properties"]) == ["color", "color_other_", "color_other"]
        await client.respond(question, {"action": "accept", "content": {"color_other_": "Green", "color_other": "Bob"}})
        await call_
        assert told(model.requests[1]) == {"color": {"answers": ["Green"]}, "color_other": {"answers": ["Bob"]}}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"action": "decline"}, "The user declined to answer."),
        ({"action": "cancel"}, "Nobody answered: the client put the question away"),
        ({"action": "accept"}, "Nobody answered: the client sent the form back without an answer"),
        ({"action": "accept", "content": {"size": "XL"}}, "nobody asked `size`: the questions are `color`, `name`"),
        (None, "Nobody answered: the client answered the approval question with an error: no window"),
    ],
)
@pytest.mark.quick(2)
async def test_no_answer_is_told_in_words_and_the_turn_goes_on(result: Any, words: str, tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, protocol_version="2025-11-25") as (model, client):
        call_ = client.codex("paint it")
        question = await client.next_request("elicitation/create")
        await (client.respond_error(question, -32000, "no window") if result is None else client.respond(question, result))
        assert text_of(await call_).startswith("Painted.")
        assert words in told_to_model(model.requests[1])


async def test_where_nobody_can_be_asked_the_model_is_told_at_once(tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, capabilities={}) as (model, client):
        assert "Painted." in text_of(await client.codex("paint it"))
        assert told_to_model(model.requests[1]).startswith("Nobody answered: the client cannot be asked")


async def test_an_answer_after_two_restarts_from_another_door_goes_on_with_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        async with McpProcess(model.url, home=tmp_path / "user" / ".codex", cwd=tmp_path) as first:
            first.codex("paint it")
            thread = (await first.next_request("elicitation/create"))["params"]["threadId"]
            await first.kill()
        async with AppClient(tmp_path / "user" / ".codex", tmp_path) as second:
            await second.call("thread/resume", threadId=thread)
            question = await second.question()
            assert question["method"] == "item/tool/requestUserInput"
            await second.kill()
        async with serving_rest(tmp_path, model) as (_, client):
            [row] = (await client.get("/v1/conversations"))["conversations"]
            [waiting] = row["waiting"]
            assert (waiting["kind"], waiting["questions"][0]["id"]) == ("user_input", "color")
            assert waiting["choices"][0]["decision"] == "denied"
            path = f"/v1/conversations/{thread}/answers"
            wrong = await client.status("POST", path, {"call_id": "call1", "answers": {"size": "XL"}})
            assert wrong == (400, "bad_request")
            answered = await client.post(path, {"call_id": "call1", "answers": {"color": "Red", "name": "Ann"}})
            assert answered == {"call_id": "call1", "status": "ok"}
            stream = await client.stream(thread)
            await stream.until("task_complete")
            assert await client.status("POST", path, {"call_id": "call1", "answers": {"color": "Red"}}) == (409, "already_decided")
        assert told(model.requests[1]) == {"color": {"answers": ["Red"]}, "name": {"answers": ["Ann"]}}


async def test_a_task_waits_for_input_and_goes_on_with_it(tmp_path: Path) -> None:
    meta: dict[str, Any] = {**META, f"{PREFIX}clientCapabilities": {"elicitation": {}, "extensions": {f"{PREFIX}tasks": {}}}}
    async with ScriptedModel(SCRIPT) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with LineProcess(COMMAND, cwd=tmp_path, env=home.environment()) as server:

            async def ask(number: int, method: str, **params: Any) -> Any:
                server.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}))
                while (message := json.loads(await server.next_line())).get("id") != number:
                    pass
                return message.get("result") or message["error"]

            task = await ask(1, "tools/call", name="codex", arguments={"prompt": "x"})
            while (state := await ask(2, "tasks/get", taskId=task["taskId"]))["status"] == "working":
                pass
            assert (state["status"], state["statusMessage"]) == ("input_required", "asks: Which colour?")
            [(key, request)] = state["inputRequests"].items()
            assert list(request["params"]["requestedSchema"]["properties"]) == ["color", "color_other", "name"]
            wrong = {key: {"action": "accept", "content": {"size": "XL"}}}
            assert "nobody asked `size`" in (await ask(3, "tasks/update", taskId=task["taskId"], inputResponses=wrong))["message"]
            right = {key: {"action": "accept", "content": {"color": "Red"}}}
            assert (await ask(4, "tasks/update", taskId=task["taskId"], inputResponses=right))["resultType"] == "complete"
            while (state := await ask(5, "tasks/get", taskId=task["taskId"]))["status"] == "working":
                pass
            assert state["result"]["content"][0]["text"] == "Painted."
        assert told_to_model(model.requests[1]) == '{"answers":{"color":{"answers":["Red"]}}}\nNot answered: name.'


async def test_an_editor_is_asked_one_question_after_the_other_or_by_a_form(tmp_path: Path) -> None:
    size = {**COLOUR, "id": "size", "question": "Which size?"}
    script = [
        call("request_user_input", questions=[COLOUR, size]),
        say("Painted."),
        ASK,
        say("Named."),
        AGAIN,
        say("Painted again."),
    ]
    async with ScriptedModel(script) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model).path
        async with AcpClient(home, tmp_path) as editor:
            session = await editor.new_session(tmp_path)
            number = editor.ask_prompt(session, "paint it")
            for asked, option in ((0, "1"), (1, "0")):
                question = await editor.question(asked)
                assert question["method"] == "session/request_permission"
                assert [each["name"] for each in question["params"]["options"]] == ["Red: warm", "Blue: cold", "Do not answer"]
                editor.choose(question, option)
            assert (await editor.answer(number))["stopReason"] == "end_turn"
        assert told(model.requests[1]) == {"color": {"answers": ["Blue"]}, "size": {"answers": ["Red"]}}
        async with AcpClient(home, tmp_path, capabilities={"elicitation": {"form": {}}}) as editor:
            session = await editor.new_session(tmp_path)
            number = editor.ask_prompt(session, "name it")
            question = await editor.question()
            assert question["method"] == "elicitation/create"
            editor.respond(question, {"action": "accept", "content": {"name": "Bob"}})
            await editor.answer(number)
            number = editor.ask_prompt(session, "paint it again")
            question = await editor.question(1)
            assert list(question["params"]["requestedSchema"]["properties"]) == ["color", "color_other", "name"]
            editor.respond(question, {"action": "accept", "content": {"color": "Red", "color_other": "but darker"}})
            await editor.answer(number)
        assert "Not answered: color." in told_to_model(model.requests[3])
        assert '"color":{"answers":["Red","but darker"]}' in told_to_model(model.requests[5], "again")
