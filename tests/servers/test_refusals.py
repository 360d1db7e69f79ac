"""What was refused though nobody decided so: the question is closed, and the result tells the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.e2e.scenes import answered, text_of, told_to_model
from tests.servers.test_calls import ASKING, scene, the_conversation
from tests.support.watching import Watching
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.errors import AgentError
from understudy.protocol.choices import Decision
from understudy.protocol.items import Message
from understudy.protocol.ops import Decide
from understudy.protocol.records import ApprovalDecided, CommandApprovalAsked, RequestSent, TurnEnded, TurnStarted, UserMessage
from understudy.servers.mcp.asking import CANCELLED, CANNOT_BE_ASKED
from understudy.servers.mcp.call import WHAT_TO_DO
from understudy.servers.questions import NOT_READABLE
from understudy.testing import HOLD, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

SCRIPT = [call("shell", command=["touch", "made"]), say("done")]
PATCH = "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"


def refused(reason: str, what: str = "touch made") -> dict[str, str]:
    return {"call_id": "call1", "what": what, "reason": reason}


def notes_of(result: dict[str, Any]) -> list[str]:
    text = str(result["content"][1]["text"])
    assert text.startswith("\n\n"), "programs that join all blocks do not glue it to the answer"
    return text.strip("\n").splitlines()


def assert_told(result: dict[str, Any], *expected: dict[str, str]) -> None:
    thread = result["structuredContent"]["threadId"]
    assert result["structuredContent"].get("refused", []) == list(expected)
    assert notes_of(result) == [
        *[f"refused: {one['what']}: {one['reason']}" for one in expected],
        *([WHAT_TO_DO] if expected else []),
        answered("", thread)["content"][1]["text"].strip("\n"),
    ]


async def test_what_a_client_that_cannot_be_asked_was_refused(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), call("apply_patch", input=PATCH, call_id="call2"), say("done")]
    config = ASKING | {"sandbox_mode": "read-only"}
    async with scene(script, tmp_path, config=config, can_be_asked=False) as (model, server):
        result = await server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        patch = refused(CANNOT_BE_ASKED, "changes to 1 file") | {"call_id": "call2"}
        assert_told(result, refused(CANNOT_BE_ASKED), patch)
        assert "isError" not in result
        assert CANNOT_BE_ASKED in told_to_model(model.requests[1])
    assert not (tmp_path / "made").exists()


async def test_a_call_s_refusals_are_its_own(tmp_path: Path) -> None:
    async with scene([*SCRIPT, say("again")], tmp_path, config=ASKING, can_be_asked=False) as (_, server):
        first = await server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        assert_told(first, refused(CANNOT_BE_ASKED))
        assert_told(await server.call_tool("codex-reply", threadId=first["structuredContent"]["threadId"], prompt="2"))


async def test_a_turn_that_fails_tells_too_what_it_was_refused(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), deltas(["a", HOLD])]
    async with scene(script, tmp_path, config=ASKING, can_be_asked=False) as (_, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await server.event("agent_message_delta", turn)
        await server.cancel(turn)
        result = await turn
        assert (result["isError"], result["error"]) == (True, "Turn interrupted")
        assert_told(result, refused(CANNOT_BE_ASKED))


UNREADABLE = [
    b'{"jsonrpc":"2.0","id":%d}',
    b'{"jsonrpc":"2.0","id":%d,"answer":{"decision":"approved"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"decision":"approved","why":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"decision":"approved","why":"\xff"}}',
    b'{"result":{"decision":"approved","why":' + b"[" * 100_000 + b"]" * 100_000 + b'},"id":%d,"jsonrpc":"2.0"}',
    b'{"id":%d,"jsonrpc":"2.0","result":{"decision":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"id":%d,"jsonrpc":"2.0","error":"\\udfff"}',
]


@pytest.mark.parametrize("line", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_an_answer_that_cannot_be_read_is_a_no(tmp_path: Path, line: bytes) -> None:
    async with scene(SCRIPT, tmp_path, config=ASKING) as (model, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        question = await server.next_request("elicitation/create")
        await server.send_raw(line.replace(b"%d", b"%d" % question["id"]) + b"\n")
        result = await turn
        assert text_of(result) == "done"
        [told] = result["structuredContent"]["refused"]
        assert told["reason"] == NOT_READABLE
        assert_told(result, told)
        assert told["reason"] in told_to_model(model.requests[1])
        assert not [frame for frame in server.frames if "error" in frame and "method" not in frame], "an answer gets no answer"
    assert not (tmp_path / "made").exists()


async def test_a_line_that_answers_nothing_of_ours_is_answered_with_an_error_and_closes_no_question(tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, config=ASKING) as (_, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        question = await server.next_request("elicitation/create")
        await server.send_raw(b'{"jsonrpc":"2.0","id":%d}\n' % (question["id"] + 1000))
        await server.send_raw(b'{"jsonrpc":"2.0","result":"\\ud800"}\n')
        await server.request("ping")
        assert [frame["id"] for frame in server.frames if "error" in frame] == [question["id"] + 1000, None]
        assert not turn.done
        await server.respond(question, {"action": "accept"})
        assert_told(await turn)
    assert (tmp_path / "made").exists()


async def test_an_error_as_the_answer_is_in_the_result(tmp_path: Path) -> None:
    async with scene(SCRIPT, tmp_path, config=ASKING) as (_, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        question = await server.next_request("elicitation/create")
        await server.respond_error(question, -32600, "Elicitation not\nsupported")
        assert_told(await turn, refused("the client answered the approval question with an error: Elicitation not supported"))


@pytest.mark.parametrize(
    "answer",
    [{"action": "decline"}, {"action": "perhaps"}, {}, {"decision": "denied"}, {"decision": {"denied": {"rejection": "no"}}}],
)
async def test_what_a_person_declined_is_not_repeated(tmp_path: Path, answer: dict[str, Any]) -> None:
    async with scene(SCRIPT, tmp_path, config=ASKING) as (_, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await server.respond(await server.next_request("elicitation/create"), answer)
        assert_told(await turn)
    assert not (tmp_path / "made").exists()


async def test_a_question_that_a_client_cancelled_ends_the_turn_and_is_named_with_what_to_set(tmp_path: Path) -> None:
    async with scene(SCRIPT[:1], tmp_path, config=ASKING) as (_, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await server.respond(await server.next_request("elicitation/create"), {"action": "cancel"})
        result = await turn
        assert result["isError"]
        assert_told(result, refused(CANCELLED))


class Person:
    """Somebody else who follows the conversation, and could answer."""

    can_answer = True

    def show(self, live: LiveEntry) -> None: ...
    def show_deltas(self, lives: Sequence[LiveDelta]) -> None: ...
    def fail(self, error: AgentError) -> None: ...


async def test_where_somebody_else_can_be_asked_the_call_waits_for_them(tmp_path: Path) -> None:
    script = [deltas(["a", HOLD]) + call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path, config=ASKING, can_be_asked=False) as (model, server):
        turn = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await server.event("agent_message_delta", turn)
        conversation = await the_conversation(server)
        conversation.tail.broadcast.followers.append(Person())
        model.release()
        await server.event("exec_approval_request", turn)
        await server.request("ping")
        assert not turn.done
        assert (await conversation.submit(Decide("call1", "approved", "client"))).effective
        async with asyncio.timeout(WAIT_SECONDS):
            assert_told(await turn)
    assert (tmp_path / "made").exists()


async def refused_in(watching: Watching, call_id: str, decided: ApprovalDecided) -> list[dict[str, str]]:
    """What the results name, of a call that began the turn and one that joined it."""
    watching.sent(1, "1")
    watching.sent(2, "1", joined=True)
    asked = CommandApprovalAsked(call_id, ("touch", "made"), "/work")
    await watching.record(UserMessage("m1", Message("user", ())), TurnStarted("1"), asked, UserMessage("m2", Message("user", ())))
    await watching.record(decided, RequestSent(("m1", "m2")), TurnEnded("completed", "done"))
    results = [frame["result"]["structuredContent"] for frame in watching.frames() if "result" in frame]
    assert [result["content"] for result in results] == ["done", "done"]
    assert "refused" not in results[1], "it was not its question"
    return list(results[0].get("refused", []))


async def test_only_a_refusal_that_nobody_decided_is_named_and_only_to_the_call_that_began_the_turn(tmp_path: Path) -> None:
    for number, (decision, source, named) in enumerate(
        [
            ("denied", "a rule", [refused("a rule")]),
            ("approved", "a rule", []),
            ("approved_for_session", "a rule", []),
            ("abort", "a rule", [refused("a rule")]),
            ("denied", "client", []),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with Watching(folder) as watching:
            decided = ApprovalDecided("call1", cast(Decision, decision), source)
            assert await refused_in(watching, "call1", decided) == named
