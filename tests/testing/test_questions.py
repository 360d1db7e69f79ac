"""Questions that the server asks, answered by hand and by rule."""

from pathlib import Path

import pytest

from understudy.testing import HOLD, McpProcess, Question, ScriptedModel, call, deltas, say, text_of
from understudy.testing.questions import Decision

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
TOUCH = call("shell", command=["touch", "made.txt"])


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(("decision", "made"), [("approved", True), ("approved_for_session", True), ("denied", False)])
@pytest.mark.quick(2)
async def test_each_decision_is_understood(tmp_path: Path, decision: Decision, made: bool, version: str) -> None:
    async with (
        ScriptedModel([TOUCH, say("over")]) as model,
        McpProcess(model, cwd=tmp_path, config=ASKING, protocol_version=version) as server,
    ):
        turn = server.codex("go")
        question = await server.next_question()
        assert (question.kind, question.command, question.call_id) == ("exec-approval", ["touch", "made.txt"], "call1")
        assert question.message
        question.decide(decision)
        assert text_of(await turn) == "over"
        assert (tmp_path / "made.txt").exists() is made


async def test_an_abort_stops_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel([TOUCH]) as model, McpProcess(model, cwd=tmp_path, config=ASKING) as server:
        turn = server.codex("go")
        (await server.next_question()).abort()
        assert "interrupted" in text_of(await turn)


async def test_a_rule_answers_every_question_and_all_are_kept(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: patched.txt\n+hello\n*** End Patch"
    script = [TOUCH, call("apply_patch", call_id="call2", input=patch), say("over")]

    def by_kind(question: Question) -> Decision:
        return "approved" if question.kind == "patch-approval" else "denied"

    async with ScriptedModel(script) as model, McpProcess(model, cwd=tmp_path, config=ASKING, decide=by_kind) as server:
        assert text_of(await server.codex("go")) == "over"
        assert [question.kind for question in server.questions] == ["exec-approval", "patch-approval"]
        assert list(server.questions[1].changes or {}) == [str(tmp_path / "patched.txt")]
        assert server.questions[1].thread
    assert (tmp_path / "patched.txt").exists()
    assert not (tmp_path / "made.txt").exists()


async def test_a_server_has_a_folder_of_its_own_where_none_is_named() -> None:
    async with ScriptedModel([TOUCH, deltas(["a", HOLD, "b"])]) as model, McpProcess(model) as server:
        turn = server.codex("go")
        await server.event("agent_message_delta")
        model.release()
        assert text_of(await turn) == "ab"
        made = server.cwd / "made.txt"
        assert made.exists()
    assert not made.parent.parent.exists()
