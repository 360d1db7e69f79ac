"""Every official client, in each era that it speaks, in every scene: a call with progress and an approval, a reply, a cancel, a
long call, a connection that breaks, a server that is killed in the middle of a call or between two.

In the legacy era a program notices nothing of a break: the client comes back with the id of the last event that it has. The modern
era has no such way. There a client gives up, each in its own words, and `codex-reply` brings what was kept; the thread is in the
first word of progress, and the Agents SDK, which shows none, finds it with `conversationsList`.
"""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.http.client_programs import LINES, Program, kept_answer, playing, until_kept
from tests.e2e.real_clients import TOOLS
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, serving
from tests.support.relay import Relay
from understudy.testing import HOLD, ScriptedModel, call, deltas, hang, say

pytestmark = pytest.mark.slow
EACH = pytest.mark.parametrize("line", LINES)
KEPT = {"understudy.serve.on_disconnect": "keep"}
# What each client of the modern era says of a call whose connection broke. The TypeScript one waits for its limit.
GIVES_UP = {
    "python2 modern": "SSE stream ended without a response",
    "fastmcp modern": "SSE stream ended without a response",
    "agents modern": "Connection closed",
    "typescript2 modern": "Request timed out",
}
LIMIT_SECONDS = 10.0  # enough for a call to begin on a busy machine
# The old SDK drops a call without telling the server, and fastmcp-tasks one that has become a task.
TELL_NOBODY = ["python1 legacy", "agents legacy", "fastmcp-tasks modern"]


def shows_progress(line: str) -> bool:
    return not line.startswith(("agents", "fastmcp-tasks"))


@EACH
async def test_a_call_with_progress_an_approval_and_a_reply(tmp_path: Path, line: str) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("made it"), say("still there")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        async with playing(line, "reply", server) as program:
            happened = await program.happened()
        assert happened["tools"][:2] == TOOLS
        assert happened["answers"] == ["made it", "still there"]
        if not line.startswith("agents"):  # which cannot be asked
            assert ["touch made.txt" in question for question in happened["questions"]] == [True]
            assert (server.cwd / "made.txt").exists()
        if shows_progress(line):
            assert "(thread " in happened["progress"][0]


@pytest.mark.parametrize("line", [line for line in LINES if line not in TELL_NOBODY])
async def test_a_call_that_is_cancelled_ends_its_turn(tmp_path: Path, line: str) -> None:
    async with (
        ScriptedModel([hang()]) as model,
        serving(tmp_path, model) as (server, _),
        playing(line, "cancel", server) as program,
    ):
        await program.until("connected")
        await model.next_request(1)
        program.go_on()
        assert await model.outcome(1) == "dropped"
        await program.happened()


@pytest.mark.parametrize("line", TELL_NOBODY)
async def test_a_call_that_is_cancelled_without_a_word_is_kept(tmp_path: Path, line: str) -> None:
    async with (
        ScriptedModel([deltas(["a", HOLD, "b"])]) as model,
        serving(tmp_path, model) as (server, client),
        Relay(server.port) as relay,
        playing(line, "cancel", server, relay.url) as program,
    ):
        await program.until("connected")
        await model.next_request(1)
        await until_kept(client)
        if line.startswith("fastmcp-tasks"):
            await relay.until_passed(rb'(?s)"taskId".*"taskId"')  # it has its task, and asks about it
        program.go_on()
        await program.happened()
        model.release()
        kept = await kept_answer(client)
        assert kept.get("structuredContent", {}).get("content") == "ab", kept


async def test_a_call_longer_than_the_pause_between_pings_is_waited_for(tmp_path: Path) -> None:
    """Nothing comes from the model for a while: pings and progress keep the clients calm. All of them at once: they only wait."""

    async def play(line: str) -> tuple[str, list[str]]:
        async with playing(line, "once", server) as program:
            return line, (await program.happened())["answers"]

    async with ScriptedModel([deltas(["so ", 17.0, "long"])] * len(LINES)) as model, serving(tmp_path, model) as (server, _):
        assert dict(await asyncio.gather(*map(play, LINES))) == {line: ["so long"] for line in LINES}


async def test_a_client_whose_time_is_over_ends_the_turn(tmp_path: Path) -> None:
    """The Agents SDK gives up when its time is over, and closes the connection."""
    async with (
        ScriptedModel([hang()]) as model,
        serving(tmp_path, model) as (server, _),
        playing("agents modern", "once", server, seconds=LIMIT_SECONDS) as program,
    ):
        await program.until("connected")
        await model.next_request(1)
        assert await model.outcome(1) == "dropped"


async def until_shown(line: str, program: Program, client: HttpClient, relay: Relay) -> None:
    """The call is under way, and there is something to come back for."""
    if shows_progress(line):
        await program.until("progress")
    else:
        await program.until("connected")
        await until_kept(client)
    if line.endswith("legacy"):
        await relay.until_passed(rb"\nid: \w")  # of the call: ids of the stream that belongs to no call begin otherwise


@EACH
@pytest.mark.parametrize("killed", [False, True], ids=["cut", "killed"])
async def test_a_break_in_the_middle_of_a_call_is_survived(tmp_path: Path, line: str, killed: bool) -> None:
    more = {"seconds": LIMIT_SECONDS} if line == "typescript2 modern" else {}
    async with (
        ScriptedModel([deltas(["a", HOLD, "b"]), say("again")]) as model,
        serving(tmp_path, model, config=KEPT) as (server, client),
        Relay(server.port) as relay,
        playing(line, "broken", server, relay.url, **more) as program,
    ):
        await until_shown(line, program, client, relay)
        relay.hold()
        if killed:
            await server.kill()
            await server.start()
        else:
            relay.cut()
        model.release()
        relay.release()
        happened = await program.happened()
        assert (happened["answers"], happened["failed"]) == (
            (["Turn interrupted", "again"], True) if killed else (["ab", "again"], False)
        )
        if line.endswith("legacy"):
            assert happened["error"] is None, "the program notices nothing"
        elif line in GIVES_UP:
            assert GIVES_UP[line] in happened["error"]
        else:  # a task: only a client that is just asking about it notices a break
            assert line == "fastmcp-tasks modern"


@EACH
async def test_a_server_killed_between_two_calls_is_not_noticed_by_the_program(tmp_path: Path, line: str) -> None:
    async with (
        ScriptedModel([say("one"), say("two")]) as model,
        serving(tmp_path, model) as (server, _),
        Relay(server.port) as relay,
        playing(line, "pause", server, relay.url) as program,
    ):
        await program.until("between")
        relay.hold()
        await server.kill()
        await server.start()
        relay.release()
        program.go_on()
        happened = await program.happened()
        assert (happened["answers"], happened["failed"]) == (["one", "two"], False)
