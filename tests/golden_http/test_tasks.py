"""What official clients that know tasks send, as it was recorded, is answered by our server as it was then.

The tools of the recording server are played by calls of `codex` on a scripted model. Compared are the HTTP status, the fields of
each answer with their types, the words among them (`status`, `resultType`, ...), and the states that each task goes through. How
often a client polls until a state changes may differ. Each difference has its reason in `OTHERWISE`.
"""

import asyncio
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest

from tests.golden_http.recorded import TASKS, Json, headers_of, requests_of
from tests.support.http_server import HttpClient, serving
from understudy.testing import HOLD, Script, ScriptedModel, call, deltas, status
from understudy.testing.waiting import WAIT_SECONDS

ASKING: Json = {"approval-policy": "untrusted", "sandbox": "workspace-write"}
# By tool of the recording: what the model says in its place, and the arguments of `codex` beside the prompt.
PLAYED: dict[str, tuple[Script, Json]] = {
    "slow_compute": ([deltas([HOLD, "computed"])], {}),
    "confirm_delete": ([call("shell", command=["rm", "x.txt"]), deltas([HOLD, "deleted x.txt"])], ASKING),
    "failing_job": ([deltas([HOLD, "let me see"]) + call("shell", command=["echo", "hi"]), status(400, "the job failed")], {}),
    "protocol_error_job": ([status(400, "internal failure")], {}),
}
ENDED = ("completed", "failed")  # by itself: what the model holds back is released for it
WORDS = ("status", "resultType", "method", "mode", "type", "isError")  # compared by value, other fields by type
# What each server has of its own, and what its tools say.
NOT_LOOKED_INTO = ("/serverInfo", ".properties", ".structuredContent", "tools")

# By recording, and by tool or method: what is otherwise, and why. `-`, `+` and `~` as in `differences`; words are a task's states.
SAYS_MORE = {"+statusMessage": "how far the turn is; a task may be seen before there is anything to say"}
NOT_WRAPPED = {"-result._meta": "the recorded server notes there how it wrapped the answer; ours has nothing to note"}
THREAD = {"~result.content": "a second block names the thread to continue with"}
STRUCTURED = {"+result.structuredContent": "the thread, the answer and a report, as data"}
NO_ERROR = {"-result.isError": "an answer without it is no error; codex leaves it out, too"}
NEVER_FAILS = "whatever ends a turn, a model's error too, is a result of the tool with `isError`, which the calling model can read"
AS_DATA = "what would be approved, as data, and under the names that codex gives it"
NOT_OFFERED = "our server does not offer it"
EVERYWHERE: dict[str, dict[str, str]] = {
    "server/discover": {
        "-capabilities.extensions.io.modelcontextprotocol/ui": NOT_OFFERED,
        "-capabilities.logging": NOT_OFFERED,
        "-capabilities.prompts.listChanged": "ours does not tell of changes: the list is made anew each time",
        "-capabilities.resources": NOT_OFFERED,
    },
    "any tool": SAYS_MORE,
}
OTHERWISE: dict[str, dict[str, dict[str, str]]] = {
    "task_cancel_fastmcp": {},
    "task_fail_fastmcp": {
        "failing_job": {"+result.error": "the text once more, for old clients that look for it there"} | STRUCTURED | THREAD,
        "protocol_error_job": {
            "working completed": NEVER_FAILS,
            "~status": NEVER_FAILS,
            "-error": NEVER_FAILS,
            "+result": NEVER_FAILS,
        },
    },
    "task_input_fastmcp": {
        "confirm_delete": {
            "working input_required working completed": "the answer lets the turn go on: the command runs, the model is asked",
            "+inputRequests[].params.codex_command": AS_DATA,
            "+inputRequests[].params.codex_cwd": AS_DATA,
            "+inputRequests[].params.codex_elicitation": AS_DATA,
            "+inputRequests[].params.codex_parsed_cmd": AS_DATA,
            "+inputRequests[].params.codex_reason": AS_DATA,
            "+inputRequests[].params.threadId": "the conversation that asks",
            "-inputRequests[].params.requestedSchema.required": "nothing has to be filled in: accepting alone approves once",
        }
        | NO_ERROR
        | STRUCTURED
        | THREAD,
    },
    "task_plain_fastmcp": {"slow_compute": NOT_WRAPPED | NO_ERROR | THREAD},
    "task_plain_inspector": {"slow_compute": NOT_WRAPPED | NO_ERROR | THREAD},
}


class Player:
    """Plays the client of one recording, and collects what is otherwise."""

    def __init__(self, model: ScriptedModel, client: HttpClient) -> None:
        self._model = model
        self._client = client
        self._ours: dict[str, str] = {}  # by name in the recording: tools, tasks and questions
        self._tools: dict[str, str] = {}  # by task of the recording
        self._states: dict[str, tuple[list[str], list[str]]] = {}  # by task of the recording: those recorded, and ours
        self._otherwise: dict[str, set[str]] = {}

    async def play(self, request: Json, answered: Json) -> None:
        params = request["body"]["params"]
        match request["body"]["method"]:
            case "tools/call":
                await self._call(params["name"], request, answered)
            case "tasks/get":
                await self._poll(params["taskId"], request, answered)
            case "tasks/update" | "tasks/cancel":
                self._compare(self._tools[params["taskId"]], answered, await self._send(request))
            case method:
                self._compare(method, answered, await self._send(request))

    def otherwise(self) -> dict[str, set[str]]:
        for task, (recorded, ours) in self._states.items():
            words = [[word for word, _ in groupby(states)] for states in (recorded, ours)]
            if words[0] != words[1]:
                self._note(self._tools[task], " ".join(words[1]))
        return self._otherwise

    async def _call(self, tool: str, request: Json, answered: Json) -> None:
        asked = len(self._model.received)
        self._ours[tool] = "codex"
        arguments = {"prompt": "go", **PLAYED[tool][1]}
        params = {**request["body"]["params"], "arguments": arguments}
        made = await self._send({**request, "body": {**request["body"], "params": params}})
        task = answered["body"]["result"]["taskId"]
        self._ours[task] = made["body"]["result"]["taskId"]
        self._tools[task] = tool
        self._states[task] = ([], [])
        self._note_states(task, answered, made)
        self._compare(tool, answered, made)
        await self._model.next_request(asked + 1)  # the turn is under way before the client goes on

    async def _poll(self, task: str, request: Json, answered: Json) -> None:
        """A state that changed since the client's last look has to change here, too: soon."""
        before = self._states[task][0][-1]
        wanted = answered["body"]["result"]["status"]
        found = await self._look(task, request, answered)
        if wanted in ENDED:
            self._model.release()
        if wanted != before:
            async with asyncio.timeout(WAIT_SECONDS):
                while found["body"]["result"]["status"] == "working":
                    found = await self._look(task, request, answered)
        assert found["body"]["result"]["taskId"] == self._ours[task]
        self._learn_questions(answered, found)
        self._compare(self._tools[task], answered, found)

    async def _look(self, task: str, request: Json, answered: Json) -> Json:
        found = await self._send(request)
        self._note_states(task, answered, found)
        return found

    def _note_states(self, task: str, answered: Json, found: Json) -> None:
        for states, answer in zip(self._states[task], (answered, found), strict=True):
            states.append(answer["body"]["result"]["status"])

    def _learn_questions(self, answered: Json, found: Json) -> None:
        recorded, ours = (list(answer["body"]["result"].get("inputRequests", {})) for answer in (answered, found))
        self._ours |= zip(recorded, ours, strict=True)

    async def _send(self, request: Json) -> Json:
        """The answer, in the form that recorded ones have."""
        body = json.dumps(renamed(request["body"], self._ours)).encode()
        answer = await self._client.request(request["method"], headers_of(request, self._ours, body), body)
        messages = await answer.messages()
        assert messages[-1]["id"] == request["body"]["id"]
        assert "result" in messages[-1], messages[-1]
        return {"status": answer.status, "stream": answer.is_stream, "body": messages[-1]}

    def _compare(self, what: str, answered: Json, found: Json) -> None:
        assert (found["status"], found["stream"]) == (answered["status"], answered.get("stream", False))
        for difference in differences(answered["body"]["result"], found["body"]["result"]):
            self._note("any tool" if difference in SAYS_MORE else what, difference)

    def _note(self, what: str, difference: str) -> None:
        self._otherwise.setdefault(what, set()).add(difference)


def renamed(value: Any, ours: dict[str, str]) -> Any:
    match value:
        case str():
            return ours.get(value, value)
        case dict():
            return {renamed(name, ours): renamed(each, ours) for name, each in cast(Json, value).items()}
        case list():
            return [renamed(each, ours) for each in cast(list[Any], value)]
        case _:
            return value


def differences(recorded: Any, ours: Any, place: str = "") -> Iterator[str]:
    """`-` what only the recording has, `+` what only ours has, `~` what is another word, of another type or of another length."""
    if type(recorded) is not type(ours):
        yield f"~{place}"
    elif place.endswith(NOT_LOOKED_INTO):
        return
    elif isinstance(recorded, dict):
        yield from _of_fields(cast(Json, recorded), ours, place)
    elif isinstance(recorded, list):
        yield from _of_list(cast(list[Any], recorded), ours, place)
    elif place.rpartition(".")[2] in WORDS and recorded != ours:
        yield f"~{place}"


def _of_list(recorded: list[Any], ours: list[Any], place: str) -> Iterator[str]:
    if len(recorded) != len(ours):
        yield f"~{place}"
    for each in ours:
        yield from differences(recorded[0], each, f"{place}[]")


def _of_fields(recorded: Json, ours: Json, place: str) -> Iterator[str]:
    if place == "inputRequests":  # their names are each server's own
        yield from differences(list(recorded.values()), list(ours.values()), place)
        return
    for name in recorded.keys() | ours.keys():
        inner = f"{place}.{name}".removeprefix(".")
        if name in recorded and name in ours:
            yield from differences(recorded[name], ours[name], inner)
        else:
            yield f"-{inner}" if name in recorded else f"+{inner}"


def script_of(recording: Json) -> Script:
    called = [
        request["body"]["params"]["name"] for request, _ in requests_of(recording) if request["body"]["method"] == "tools/call"
    ]
    return [entry for tool in called for entry in PLAYED[tool][0]]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
async def test_the_requests_of_a_recorded_client_that_knows_tasks_get_the_answers_they_got(tmp_path: Path, path: Path) -> None:
    recording = json.loads(path.read_text())
    async with ScriptedModel(script_of(recording)) as model, serving(tmp_path, model) as (server, client):
        (server.cwd / "x.txt").touch()
        player = Player(model, client)
        for request, answered in requests_of(recording):
            await player.play(request, answered)
        expected = EVERYWHERE | OTHERWISE[path.stem]
        assert player.otherwise() == {what: set(reasons) for what, reasons in expected.items()}
        assert (server.cwd / "x.txt").exists() == (path.stem != "task_input_fastmcp"), "it is removed once that is approved"
