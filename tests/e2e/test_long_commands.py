"""Commands that outlive their calls: started, typed at, waited for, listed, and ended, in every mode."""

import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, thread_of, told_to_model
from tests.e2e.talking import listed
from understudy.testing import Script, call, say

MODES = pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write", "read-only"])
FIRST = 1001  # the number of a conversation's first session


class Told:
    """What the model was told of a session, taken apart."""

    def __init__(self, text: str) -> None:
        found = re.fullmatch(
            r"Chunk ID: [0-9a-f]{6}\nWall time: (\d+\.\d{4}) seconds\n"
            r"Process (?:exited with code (-?\d+)|running with session ID (\d+))\nOriginal token count: (\d+)\nOutput:\n(.*)",
            text,
            re.DOTALL,
        )
        assert found is not None, text
        self.seconds = float(found[1])
        self.exit_code = None if found[2] is None else int(found[2])
        self.session = None if found[3] is None else int(found[3])
        self.tokens = int(found[4])
        self.output = found[5]


def start(cmd: str, **more: Any) -> Any:
    arguments: dict[str, Any] = {"yield_time_ms": 300, **more}
    return call("exec_command", cmd=cmd, **arguments)


def write(chars: str = "", number: int = FIRST, *, call_id: str = "call2", **more: Any) -> Any:
    return call("write_stdin", session_id=number, chars=chars, call_id=call_id, **more)


async def told(script: Script, folder: Path, mode: str = "workspace-write", **config: Any) -> list[str]:
    """What the model was told of each of its calls."""
    settings = {"sandbox_mode": mode, "approval_policy": "never", **config}
    async with scene([*script, say("done")], folder, config=settings) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "done"
        return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]


@pytest.mark.quick(1)
@MODES
async def test_a_command_that_ends_in_time_is_told_with_its_end(tmp_path: Path, mode: str) -> None:
    [text] = await told([start("echo out; echo err >&2; exit 3", yield_time_ms=30_000)], tmp_path, mode)
    outcome = Told(text)
    assert (outcome.exit_code, outcome.session, outcome.output, outcome.tokens) == (3, None, "out\nerr\n", 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "asked", "given"),
    [
        (None, None, 10_000),
        (None, 50_000, 10_000),
        (None, 100, 100),
        (200, None, 200),
        (200, 50_000, 200),
        (20_000, 15_000, 15_000),
    ],
)
async def test_a_call_may_ask_for_less_output_than_the_user_allows_and_not_for_more(
    tmp_path: Path, limit: int | None, asked: int | None, given: int
) -> None:
    config: dict[str, Any] = {} if limit is None else {"tool_output_token_limit": limit}
    more: dict[str, Any] = {} if asked is None else {"max_output_tokens": asked}
    [text] = await told([start("head -c 100000 /dev/zero | tr '\\0' x", yield_time_ms=30_000, **more)], tmp_path, **config)
    outcome = Told(text)
    assert outcome.tokens == 25_000
    assert given * 4 - 100 < len(outcome.output) < given * 4 + 100


@pytest.mark.quick(1)
@MODES
async def test_a_terminal_is_typed_at_and_interrupted_and_then_unknown(tmp_path: Path, mode: str) -> None:
    got = f"/tmp/got-{secrets.token_hex(8)}"  # can be written in every mode
    script = [
        start(f"read x; echo got $x; : > {got}; read y; echo bye $y", tty=True),
        write("hello\n", yield_time_ms=1000),
        call("shell", command=["sh", "-c", f"until test -e {got}; do sleep 0.05; done; rm {got}"], call_id="wait"),
        write("\x03", call_id="call3", yield_time_ms=30_000),
        write("x\n", call_id="call4"),
    ]
    first, second, _, third, fourth = await told(script, tmp_path, mode)
    assert (Told(first).session, Told(first).output) == (FIRST, "")
    assert (Told(second).session, Told(third).exit_code) == (FIRST, 130)
    assert Told(second).output + Told(third).output == "hello\r\ngot hello\r\n^C"
    assert fourth == f"write_stdin failed: Unknown process id {FIRST}"


async def test_it_outlives_its_turn_and_is_listed_while_it_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"echo one; until test -e {gate}; do sleep 0.05; done; echo two"
    script = [start(wait), say("first"), write(yield_time_ms=300_000), say("second")]
    async with scene(script, tmp_path, config={"sandbox_mode": "workspace-write"}) as (model, client):
        first = await client.call_tool("codex", prompt="1", report="full")
        thread = thread_of(first)
        [running] = first["structuredContent"]["running"]["commands"]
        assert running == {"session_id": FIRST, "command": wait}
        [command] = first["structuredContent"]["report"]["commands"]
        assert (command["session_id"], command["running"], command["exit_code"]) == (FIRST, True, None)
        [row] = await listed(client)
        assert (row["status"], row["running"]) == ("idle", {"commands": [running]})
        gate.touch()
        second = client.call_tool("codex-reply", threadId=thread, prompt="2")
        assert "running" not in (await second)["structuredContent"]
        outcome = Told(told_to_model(model.requests[-1], "call2"))
        begun = Told(told_to_model(model.requests[1]))
        assert (outcome.exit_code, begun.output + outcome.output) == (0, "one\ntwo\n")
        assert "running" not in (await listed(client))[0]
        [end] = [event for event in client.events(second) if event["type"] == "exec_command_end"]
        assert (end["call_id"], end["stdout"]) == ("call1", "one\ntwo\n")
