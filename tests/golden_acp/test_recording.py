"""The recorded session of an official client, played with ours: its requests, and the shapes of what it was told.

The agent of the recording is a fixture, so texts and ids differ. What differs by intent:

- `available_commands_update`: ours has no slash commands.
- `terminal/*`: ours never runs a command in the editor; it runs in the sandbox, as a tool call with its output.
- `_no_such` and `__no_such`: the library answers null, and ours -32601, as the protocol wants it.
- The plan's priorities: a plan has none here, so each is `medium`.
- `tool_call_update`: ours also says `in_progress`, and gives the content again, which replaces what was shown.
- `fs/read_text_file`: ours asks the editor for what it has of a file that is to be changed; the fixture never does.
- `config_option_update`: ours tells it with a mode, because the mode is among the options, too.
"""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.acp_client import AcpClient
from understudy.testing import CodexHome, ScriptedModel, call, say

Json = dict[str, Any]
RECORDING: list[Json] = json.loads((Path(__file__).parent / "recordings" / "session_python.json").read_text())["messages"]
LEFT_OUT = ("available_commands_update", "config_option_update")
BY_INTENT = {"_no_such", "__no_such"}
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** End Patch"
SCRIPT = [
    call("update_plan", plan=[{"step": "edit a.txt", "status": "in_progress"}, {"step": "run tests", "status": "pending"}]),
    call("apply_patch", input=PATCH),
    call("shell", command=["echo", "1 passed"]),
    say("Done.", usage=(1100, 100)),
    call("shell", command=["sleep", "1000"]),
]


def sent() -> list[Json]:
    return [step["message"] for step in RECORDING if step["from"] == "client" and "method" in step["message"]]


def recorded_answer(request: Json) -> Json:
    return next(
        step["message"]
        for step in RECORDING
        if step["from"] == "agent" and step["message"].get("id") == request["id"] and "method" not in step["message"]
    )


def recorded_updates() -> list[Json]:
    return [step["message"]["params"]["update"] for step in RECORDING if step["message"].get("method") == "session/update"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


async def test_the_recorded_session_goes_the_same_way(tmp_path: Path, work: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        home = CodexHome(
            tmp_path / "home" / ".codex", model, config={"approval_policy": "untrusted", "model_context_window": 200_000}
        )
        async with AcpClient(home.path, work, greets=False) as client:
            session = ""
            for message in sent():
                request = json.loads(
                    json.dumps(message).replace('"/w"', json.dumps(str(work))).replace('"s1"', json.dumps(session))
                )
                params = request["params"]
                match message["method"]:
                    case "session/set_mode":
                        params["modeId"] = "never"  # `auto` of the fixture
                    case "session/cancel":
                        await client.update("tool_call", title="sleep 1000")
                    case _:
                        pass
                client.send(request)
                if params.get("prompt") == [{"text": "please edit", "type": "text"}]:
                    reading = await client.until(lambda m: m.get("method") == "fs/read_text_file", "a request for a text")
                    client.respond(reading, {"content": "a\n"})
                    await answer_questions(client)
                if "id" in request and params.get("prompt") != [{"text": "wait", "type": "text"}]:
                    answer = await client.until(lambda m, r=request: m.get("id") == r["id"] and "method" not in m, str(request))
                    session = session or answer.get("result", {}).get("sessionId", "")
                    compare(recorded_answer(message), answer, message["method"])
                elif message["method"] == "session/cancel":
                    stopped = await client.until(lambda m: m.get("id") == 5 and "method" not in m, "the end of the prompt")
                    assert stopped["result"] == {"stopReason": "cancelled"}
    kinds = {update["sessionUpdate"] for update in client.updates()}
    assert {update["sessionUpdate"] for update in recorded_updates()} - kinds <= {*LEFT_OUT, "agent_thought_chunk"}
    for update in recorded_updates():
        ours = next((told for told in client.updates(update["sessionUpdate"]) if shape(update) <= shape(told) | {"rawInput"}), None)
        seen = [sorted(shape(told)) for told in client.updates(update["sessionUpdate"])]
        if update["sessionUpdate"] in LEFT_OUT or any(part.get("type") == "terminal" for part in parts(update)):
            continue
        if update["sessionUpdate"] != "agent_thought_chunk":  # the scripted model has none: other tests have
            assert ours is not None, (update, seen)
    assert (work / "a.txt").read_text() == "b\n"


async def answer_questions(client: AcpClient) -> None:
    """Of the patch, and of the command: that one runs in the recording without a question, in the fixture's own way."""
    recorded = next(
        step["message"]["params"] for step in RECORDING if step["message"].get("method") == "session/request_permission"
    )
    question = await client.question(0)
    asked = question["params"]
    assert set(recorded["toolCall"]) <= set(asked["toolCall"])
    assert [option for option in asked["options"] if option["optionId"] != "abort"] == recorded["options"]
    client.choose(question, "approved")


def compare(recorded: Json, ours: Json, method: str) -> None:
    if method in BY_INTENT:
        assert ours["error"]["code"] == -32601
    elif "error" in recorded:
        assert (ours["error"]["code"], ours["error"]["data"]) == (recorded["error"]["code"], recorded["error"]["data"])
    else:
        missing = lacks(recorded["result"], ours["result"])
        assert not missing, (method, missing)


def lacks(recorded: Any, ours: Any, where: str = "") -> list[str]:
    """Members that the recorded answer has and ours has not, at any depth; of lists the first is looked at."""
    if isinstance(recorded, dict):
        if not isinstance(ours, dict):
            return [where]
        return [
            found
            for key, value in cast(Json, recorded).items()
            for found in ([f"{where}.{key}"] if key not in ours else lacks(value, ours[key], f"{where}.{key}"))
        ]
    if isinstance(recorded, list) and recorded:
        return (
            [where]
            if not isinstance(ours, list) or not ours
            else lacks(cast(list[Any], recorded)[0], cast(list[Any], ours)[0], f"{where}[0]")
        )
    return [] if type(cast(object, recorded)) is type(cast(object, ours)) else [where]


def parts(update: Json) -> list[Json]:
    content = update.get("content")
    return cast(list[Json], content) if isinstance(content, list) else []


def shape(update: Json) -> set[str]:
    """Its members, and the types of its parts."""
    return set(update) - {"rawOutput", "rawInput", "messageId"} | {f"part {part['type']}" for part in parts(update)}
