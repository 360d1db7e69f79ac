"""`wire = "modern"`: calls and streams speak as codex 0.153.4 did, `codex/event` only, and no conversation gets another's."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, scene, thread_of, told_to_model
from tests.e2e.talking import create, send
from understudy.testing import Answer, McpProcess, Text, Thought, ToolCall, call, deltas, say

MODERN = {"understudy.wire": "modern"}


def events(client: McpProcess, thread: str, *, of_calls: bool) -> list[dict[str, Any]]:
    """The `params` of a conversation's events, of calls or of streams."""
    found = [frame["params"] for frame in client.frames if frame.get("method") == "codex/event"]
    return [one for one in found if one["_meta"]["threadId"] == thread and ("requestId" in one["_meta"]) == of_calls]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["msg"] for event in found if event["msg"]["type"] == kind]


async def test_a_call_s_events_are_modern_and_sent_once(tmp_path: Path) -> None:
    script = [call("shell", command=["sh", "-c", "echo out"]), say("done")]
    async with scene(script, tmp_path, config=MODERN) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        result = await turn
        thread = thread_of(result)
        assert result["structuredContent"] == answered("done", thread)["structuredContent"]
        told = events(client, thread, of_calls=True)
        assert [event["msg"]["type"] for event in told if not event["msg"]["type"].endswith("_delta")] == [
            "session_configured",
            "task_started",
            "exec_command_begin",
            "exec_command_end",
            "agent_message",
            "task_complete",
        ]
        assert {event["_meta"]["requestId"] for event in told} == {turn.id}
        assert [event["id"] for event in told] == ["", *["1"] * (len(told) - 1)]
        assert {event["msg"]["turn_id"] for event in told if "turn_id" in event["msg"]} == {"1"}
        methods = {frame["method"] for frame in client.frames if "method" in frame and "id" not in frame}
        assert methods == {"codex/event"}, "never under their own names"


@pytest.mark.slow
async def test_two_conversations_whose_calls_have_the_same_id_keep_their_commands_apart(tmp_path: Path) -> None:
    slow, quick = ["sh", "-c", "until test -e go; do sleep 0.01; done; echo slow"], ["echo", "quick"]
    script = [call("shell", command=slow, timeout=60_000), call("shell", command=quick), say("second"), say("first")]
    async with scene(script, tmp_path, config=MODERN) as (_, client):
        first = client.call_tool("codex", prompt="one")
        await client.event("exec_command_begin", first)
        second = await client.call_tool("codex", prompt="two")
        (tmp_path / "go").touch()
        threads = [thread_of(await first), thread_of(second)]
        ends = [of_kind(events(client, thread, of_calls=True), "exec_command_end") for thread in threads]
        assert [[end["command"] for end in told] for told in ends] == [[slow], [quick]]


@pytest.mark.slow
@pytest.mark.parametrize("after", [None, 0])
async def test_a_stream_speaks_it_in_its_snapshot_and_live(tmp_path: Path, after: int | None) -> None:
    script = [call("shell", command=["echo", "one"]), say("done"), call("shell", command=["echo", "two"]), say("done")]
    async with scene(script, tmp_path, config=MODERN) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="go"))
        arguments = {"conversation_id": thread} | ({} if after is None else {"after": after})
        await client.call_tool("conversationStream", arguments)
        snapshot = await client.next_notification("notifications/initial_state")
        before = snapshot["params"]["initial_state"]["events"]
        await send(client, thread, "again")

        def complete(_: dict[str, Any]) -> bool:
            return bool(of_kind(events(client, thread, of_calls=False), "task_complete"))

        await client.wait_for_frame(complete, "the end of the second turn")
        live = events(client, thread, of_calls=False)
        for told, turn, word in ((before, "1", "one"), (live, "2", "two")):
            [began] = of_kind(told, "exec_command_begin")
            [ended] = of_kind(told, "exec_command_end")
            assert began["command"] == ended["command"] == ["echo", word]
            assert began["turn_id"] == ended["turn_id"] == turn
            assert of_kind(told, "task_complete")[0]["turn_id"] == turn
            assert {event["id"] for event in told} - {""} == {turn}
            marks = [event["_meta"] for event in told]
            assert all(("seq" in mark) == (after is not None) for mark in marks)
            assert {mark["threadId"] for mark in marks} == {thread}
        assert bool(of_kind(live, "user_message")) == (after is not None)


@pytest.mark.slow
async def test_a_stream_that_begins_between_begin_and_end_of_a_command_still_has_its_command(tmp_path: Path) -> None:
    slow = ["sh", "-c", "until test -e go; do sleep 0.01; done"]
    async with scene([call("shell", command=slow, timeout=60_000), say("done")], tmp_path, config=MODERN) as (_, client):
        thread = await create(client, prompt="go")
        await client.call_tool("conversationStream", conversation_id=thread, after=0)
        begun = await client.wait_for_frame(
            lambda frame: "exec_command_begin" in str(frame), "the beginning of the command in the stream"
        )
        seq = max(
            event["_meta"]["seq"]
            for event in (*begun["params"].get("initial_state", {}).get("events", ()), *events(client, thread, of_calls=False))
        )
        await client.call_tool("conversationStream", conversation_id=thread, after=seq)
        (tmp_path / "go").touch()
        await client.wait_for_frame(
            lambda _: bool(of_kind(events(client, thread, of_calls=False), "exec_command_end")), "the end of the command"
        )
        [ended] = of_kind(events(client, thread, of_calls=False), "exec_command_end")
        assert ended["command"] == slow


HIDING = {"hide_agent_reasoning": True, "show_raw_agent_reasoning": True}


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_hidden_reasoning_is_in_no_event_no_progress_and_no_stream(tmp_path: Path, wire: str) -> None:
    script = [Answer((Thought("secretly pondering", raw), Text(("done",)))) for raw in (False, True, False)]
    config = HIDING | {"understudy.wire": wire}
    async with scene(script, tmp_path, config=config, wire="responses") as (_, client):
        params = {"name": "codex", "arguments": {"prompt": "go"}, "_meta": {"progressToken": "t"}}
        thread = thread_of(await client.request("tools/call", params))
        await client.call_tool("codex-reply", threadId=thread, prompt="go")
        await client.call_tool("conversationStream", conversation_id=thread, after=0)
        await client.next_notification("notifications/initial_state")
        await client.call_tool("codex-reply", threadId=thread, prompt="again")
        assert await client.request("ping") == {}
        assert "done" in str(client.frames)
        assert "pondering" not in str(client.frames)
        assert "reasoning" not in {frame.get("params", {}).get("msg", {}).get("type", "")[6:15] for frame in client.frames}


@pytest.mark.slow
async def test_reasoning_that_is_not_hidden_is_shown(tmp_path: Path) -> None:
    async with scene([Answer((Thought("aloud", False), Text(("done",))))], tmp_path, wire="responses") as (_, client):
        turn = client.call_tool("codex", prompt="go")
        await turn
        assert [event["text"] for event in client.events(turn) if event["type"] == "agent_reasoning"] == ["aloud"]


# The members of events of codex 0.153.4, as it was seen to send them for these commands and patches.
REAL = {
    "session_configured": "approval_policy approvals_reviewer cwd model "
    "model_provider_id permission_profile rollout_path session_id thread_id",
    "task_started": "collaboration_mode_kind model_context_window started_at turn_id",
    "exec_command_begin": "call_id command cwd parsed_cmd process_id source started_at_ms turn_id",
    "exec_command_end": "aggregated_output call_id command completed_at_ms cwd duration exit_code "
    "formatted_output parsed_cmd process_id source status stderr stdout turn_id",
    "patch_apply_begin": "auto_approved call_id changes turn_id",
    "patch_apply_end": "call_id changes status stderr stdout success turn_id",
    "turn_diff": "unified_diff",
    "token_count": "info rate_limits",
    "agent_message_content_delta": "delta item_id thread_id turn_id",
    "agent_message": "memory_citation message phase",
    "agent_reasoning": "text",
    "task_complete": "completed_at duration_ms last_agent_message started_at time_to_first_token_ms turn_id",
}
# What it says beside, of things that are not here: its process ids, its own permissions and files, its features.
NOT_OURS = {
    *("process_id", "permission_profile", "rollout_path", "collaboration_mode_kind"),
    *("started_at", "duration_ms", "time_to_first_token_ms", "rate_limits"),
}


async def test_our_events_have_the_members_that_the_real_server_s_have(tmp_path: Path) -> None:
    patches = [
        "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch",
        "*** Begin Patch\n*** Update File: new.txt\n@@\n-hello\n+bye\n*** End Patch",
        "*** Begin Patch\n*** Delete File: new.txt\n*** End Patch",
    ]
    commands = ["echo out", "exit 3", *(f"apply_patch <<'EOF'\n{patch}\nEOF\n" for patch in patches)]
    calls = [call("shell", call_id=f"c{n}", command=["bash", "-lc", command]) for n, command in enumerate(commands)]
    thought = Answer((Thought("thinking", False), ToolCall("shell", "{}", "c9")))
    async with scene([thought, *calls, deltas(["Hel", "lo"])], tmp_path, config=MODERN, wire="responses") as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="hi"))
        told: dict[str, list[dict[str, Any]]] = {}
        for event in events(client, thread, of_calls=True):
            told.setdefault(event["msg"]["type"], []).append(event["msg"])
    missing = {kind: set(members.split()) - set(told[kind][0]) - NOT_OURS for kind, members in REAL.items()}
    assert {kind: names for kind, names in missing.items() if names} == {}
    path = str(tmp_path / "new.txt")
    assert [end["changes"] for end in told["patch_apply_end"]] == [
        {path: {"type": "add", "content": "hello\n"}},
        {path: {"type": "update", "unified_diff": "@@ -1 +1 @@\n-hello\n+bye\n", "move_path": None}},
        {path: {"type": "delete", "content": "bye\n"}},
    ]
    assert [end["status"] for end in told["exec_command_end"]] == ["completed", "failed"]


ASKING = MODERN | {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}


async def test_a_patch_question_shows_its_changes_as_the_events_do(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "gone.txt").write_text("gone\n")
    hunks = "*** Add File: new.txt\n+new\n*** Update File: old.txt\n@@\n-old\n+other\n*** Delete File: gone.txt\n"
    patch = f"*** Begin Patch\n{hunks}*** End Patch"
    async with scene([call("apply_patch", input=patch), say("done")], tmp_path, config=ASKING) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        changes = {
            str(tmp_path / "new.txt"): {"type": "add", "content": "new\n"},
            str(tmp_path / "old.txt"): {"type": "update", "unified_diff": "@@ -1 +1 @@\n-old\n+other\n", "move_path": None},
            str(tmp_path / "gone.txt"): {"type": "delete", "content": "gone\n"},
        }
        assert question["params"]["codex_changes"] == changes
        [asked] = of_kind(events(client, question["params"]["threadId"], of_calls=True), "apply_patch_approval_request")
        assert asked["changes"] == changes
        await client.respond(question, {"decision": {"denied": {"rejection": "not today"}}})
        await turn


@pytest.mark.parametrize(
    ("asked_for", "told"),
    [
        (call("shell", command=["bash", "-lc", "echo x > made"]), "exec command rejected by user: use make"),
        (
            call("apply_patch", input="*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"),
            "patch rejected by user: use make",
        ),
    ],
)
async def test_the_words_of_a_refusal_reach_the_model(tmp_path: Path, asked_for: Answer, told: str) -> None:
    async with scene([asked_for, say("done")], tmp_path, config=ASKING) as (model, client):
        turn = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        await client.respond(question, {"decision": {"denied": {"rejection": "use make"}}})
        await turn
        assert told_to_model(model.requests[1], "call1") == told
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("command", "shown"),
    [(["bash", "-lc", "echo x > made"], "echo x > made"), (["touch", "a b"], "touch 'a b'")],
)
async def test_a_command_question_shows_the_script_of_a_shell_by_itself(tmp_path: Path, command: list[str], shown: str) -> None:
    async with scene([call("shell", command=command), say("done")], tmp_path, config=ASKING) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert question["params"]["codex_parsed_cmd"] == [{"type": "unknown", "cmd": shown}]
        await client.respond(question, {"decision": "denied"})
        await turn
