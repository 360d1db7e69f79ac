"""What each recorded client is about (progress, a question, a cancel, a break), played with calls of `codex`.

For every call: which kinds of messages came, in which order, repeats as one. Our own events (`codex/event`) are beside the point.
Where ours come otherwise, the reason stands in `OTHERWISE`. Statuses of all other requests are in `test_clients.py`, tasks in
`test_tasks.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest

from tests.golden_http.recorded import CLIENTS, PROBES, TASKS, Json, headers_of
from tests.support.http_server import HttpClient, Response, serving
from understudy.testing import HOLD, Entry, Script, ScriptedModel, call, deltas, hang, say, status

ASKING: Json = {"approval-policy": "untrusted", "sandbox": "workspace-write"}
UNCHANGING = "our tools never change while a server runs, so nothing is announced; another tool is called in its place"
MUST_NOT_ASK = "a client that has not declared `elicitation` is not asked: the command is refused, and the result says so"
BY_RESULT = "a cancelled call is answered by a result: TS v1 takes nothing else for the end of its stream"
IS_TASK = "it declares tasks, and a turn is one"
# By recording and tool: the kinds that we send, and why.
OTHERWISE: dict[tuple[str, str], tuple[str, str]] = {
    ("legacy_cancel_python", "work"): ("progress result", BY_RESULT),
    ("legacy_cancel_ts1", "work"): ("progress result", BY_RESULT),
    ("legacy_timeout_ts1", "work"): ("result", BY_RESULT),
    ("modern_agents_sdk", "approve"): ("result", MUST_NOT_ASK),
    ("inspector_auto_call", "echo"): ("task", IS_TASK),
    ("inspector_modern_call", "echo"): ("task", IS_TASK),
    ("inspector_auto_undeclared_elicitation", "approve"): ("task", "it declares tasks; nor is it asked: " + MUST_NOT_ASK),
    ("modern_no_tasks_ts2", "failing_job"): ("result", "we have no tool that can only be called as a task"),
}
NOT_CALLED = ("change", "test_trigger_tool_change")  # see UNCHANGING


class Exchange:
    """A request of the recording with all that came of it."""

    def __init__(self, steps: list[Json], all_steps: list[Json]) -> None:
        self.request: Json = next(step["request"] for step in steps if "request" in step)
        self.body = cast(Json, self.request["body"] or {})
        self.events: list[Json] = [step["sse"] for step in steps if "sse" in step]
        answered = next((cast(Json, step["response"]) for step in steps if "response" in step), Json())
        messages = [event["data"] for event in self.events if event.get("data")]
        if answered.get("body"):
            messages.append(answered["body"])
        requests = [step["request"] for step in all_steps if "request" in step]
        ids = {str(event["id"]) for event in self.events if "id" in event}
        back = [each for each in requests if header(each, "last-event-id") in ids]
        self.cancelled = any(cancels(each["body"], self.body.get("id")) for each in requests)
        self.resumed = bool(back) and not self.cancelled
        if self.resumed:
            number = next(step["exchange"] for step in all_steps if step.get("request") is back[0])
            messages += [
                step["sse"]["data"] for step in all_steps if step["exchange"] == number and step.get("sse", {}).get("data")
            ]
        self.kinds = kinds(messages)
        self.left = not self.resumed and not {"result", "error", "input_required"} & set(self.kinds.split())

    @property
    def tool(self) -> str:
        return str(self.body["params"]["name"]) if self.body.get("method") == "tools/call" else ""


def header(request: Json, name: str) -> str:
    return next((value for key, value in request["headers"] if key.lower() == name), "")


def cancels(body: Json | None, request_id: Any) -> bool:
    return body is not None and body.get("method") == "notifications/cancelled" and body["params"]["requestId"] == request_id


def kinds(messages: list[Json]) -> str:
    found = [kind for kind in (kind_of(message) for message in messages) if kind]
    return " ".join(kind for kind, _ in groupby(found))


def kind_of(message: Json) -> str:
    method: str | None = message.get("method")
    match method:
        case "notifications/progress":
            return "progress"
        case "elicitation/create":
            return "asks"
        case None:
            kind = str(message.get("result", {}).get("resultType", "complete"))
            return "error" if "error" in message else "result" if kind == "complete" else kind
        case _:
            return ""


def exchanges_of(recording: Json) -> list[Exchange]:
    steps: list[Json] = recording["steps"]
    numbers = [step["exchange"] for step in steps if "request" in step]
    return [Exchange([step for step in steps if step["exchange"] == number], steps) for number in numbers]


def script_of(played: Exchange) -> list[Entry]:
    if "inputResponses" in played.body["params"]:
        return []  # the call goes on
    if played.cancelled or played.left:
        return [hang()]
    if played.resumed:
        return [deltas(["so ", HOLD, "far"])]
    match played.tool:
        case "approve":
            return [call("shell", command=["touch", "made.txt"]), say("done")]
        case "failing_job":
            return [status(400, "the job failed")]
        case "echo":
            return [say("hi")]
        case _:
            return [call("shell", command=["echo", "one"]), say("done")]


class Player:
    def __init__(self, client: HttpClient, model: ScriptedModel, exchanges: list[Exchange]) -> None:
        self._client, self._model = client, model
        self._answers = iter([each for each in exchanges if each.body and "method" not in each.body])
        self._asked: Json = {}  # of the last round: the state, and the keys of its questions

    async def send(self, played: Exchange, body: Json | None = None) -> Response:
        body = played.body if body is None else body
        data = json.dumps(body).encode() if body else b""
        ours = {played.tool: "codex", header(played.request, "mcp-session-id"): self._client.session or ""}
        response = await self._client.request(played.request["method"], headers_of(played.request, ours, data), data)
        if body.get("method") == "initialize":
            self._client.session = response.headers["mcp-session-id"]
        return response

    async def call(self, played: Exchange) -> str:
        """The kinds of what came."""
        params: Json = {**played.body["params"], "name": "codex", "arguments": {"prompt": "go", **ASKING}}
        if "inputResponses" in params:
            [answer] = params["inputResponses"].values()
            params["requestState"] = self._asked["requestState"]
            accepted = {"action": answer["action"]}  # and not its content: that is of a form of the recorded server
            params["inputResponses"] = {key: accepted for key in self._asked["inputRequests"]}  # noqa: C420
        seen = len(self._model.received)
        sending = asyncio.create_task(self.send(played, {**played.body, "params": params}))
        if played.left and not played.events:  # the client left before it had heard anything
            await self._model.next_request(seen + 1)
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled():  # ours had said something
                sending.result().close()
            assert await self._model.outcome(seen + 1) == "dropped"
            return ""
        response = await sending
        got: list[Json] = []
        async for event in self._events(response):
            got.append(event)
            message = event["data"]
            if kind_of(message) == "asks":
                answer = {**next(self._answers).body, "id": message["id"]}
                assert (await self._client.send(answer)).status == 202
            if self._is_under_way(played, got):
                break
        if played.cancelled:
            await self._model.next_request(seen + 1)
            assert (await self._client.notify("notifications/cancelled", {"requestId": played.body["id"]})).status == 202
            got += [event async for event in self._events(response)]
        elif played.left:
            await self._model.next_request(seen + 1)
            response.close()
            assert await self._model.outcome(seen + 1) == "dropped"
        elif played.resumed:
            response.close()
            self._model.release()
            rest = await self._client.listen(next(event["id"] for event in reversed(got) if "id" in event))
            got += [event async for event in self._events(rest)]
        messages = [event["data"] for event in got]
        if "progress" not in played.kinds:  # the recorded tool told none, though the client wanted it
            messages = [message for message in messages if kind_of(message) != "progress"]
        self._asked = messages[-1].get("result", {}) if messages else {}
        return kinds(messages)

    def _is_under_way(self, played: Exchange, got: list[Json]) -> bool:
        """As far as the recorded client let it come before something happened."""
        if not (played.cancelled or played.left or played.resumed):
            return False
        return "progress" not in played.kinds or "progress" in kinds([event["data"] for event in got])

    async def _events(self, response: Response) -> AsyncIterator[Json]:
        if not response.is_stream:
            yield {"data": await response.json()}
            return
        async for event in response.events():
            if event.get("data"):
                yield event


def script(exchanges: list[Exchange]) -> Script:
    return [entry for each in exchanges if each.tool and each.tool not in NOT_CALLED for entry in script_of(each)]


@pytest.mark.quick(12)
@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.stem)
async def test_the_calls_of_a_recorded_client_come_to_what_they_came_to(tmp_path: Path, path: Path) -> None:
    exchanges = exchanges_of(json.loads(path.read_text()))
    model_script = script(exchanges)
    async with ScriptedModel(model_script) as model, serving(tmp_path, model) as (_, client):
        player = Player(client, model, exchanges)
        for played in exchanges:
            if played.body.get("method") == "initialize":
                await player.send(played)
                await client.notify("notifications/initialized")
            if not played.tool or played.tool in NOT_CALLED:
                continue
            found = await player.call(played)
            expected = played.kinds
            reason = OTHERWISE.get((path.stem, played.tool))
            if reason is not None and found != expected:
                expected = reason[0]
            assert found == expected, played.tool
            if found == "task":  # it goes on without the client
                await model.next_request(len(model_script))


def test_every_recording_has_a_player() -> None:
    assert len(CLIENTS) + len(TASKS) + len(PROBES) == 53
