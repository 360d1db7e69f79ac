"""A hostile model with commands that outlive their calls: floods, foreign numbers, input past a person, and terminals of others."""

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import resident_bytes, scene, text_of, thread_of, told_to_model
from tests.e2e.talking import Stream, create, send
from tests.e2e.test_long_commands import FIRST, Told, start, write
from tests.sandbox.stage import processes_with
from understudy.testing import Answer, ToolCall, call, say
from understudy.testing.waiting import WAIT_SECONDS

CONTAINED = {"sandbox_mode": "workspace-write", "approval_policy": "never"}
UNKNOWN = "write_stdin failed: Unknown process id {}"


def outputs(request: Any) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


async def told(script: list[Any], folder: Path, **config: Any) -> list[str]:
    async with scene([*script, say("done")], folder, config={**CONTAINED, **config}) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "done"
        return outputs(model.requests[-1])


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("tty", "size"), [(False, 20_000_000), (True, 2_000_000), pytest.param(False, 100_000_000, marks=pytest.mark.slow)]
)
async def test_a_flood_is_bounded_everywhere(tmp_path: Path, tty: bool, size: int) -> None:
    """To the model, to viewers, in the log and in memory; all of it is read, so that the command ends."""
    flood = f"head -c {size} /dev/zero | tr '\\0' x; echo; echo last"
    script = [start(flood, tty=tty, yield_time_ms=30_000), *(write(call_id=f"call{n}", yield_time_ms=60_000) for n in (2,))]
    async with scene([*script, say("done")], tmp_path, config=CONTAINED) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "done"
        assert resident_bytes(client.process.pid) < 300_000_000
        first = Told(outputs(model.requests[-1])[0])
        ending = first if first.exit_code is not None else Told(outputs(model.requests[-1])[1])
        assert ending.output.rstrip().endswith("last")
        assert first.tokens > 10_000
        assert all(len(text) < 50_000 for text in outputs(model.requests[-1]))
        deltas = [event for event in client.events(call_) if event["type"] == "exec_command_output_delta"]
        assert sum(len(event["chunk"]) for event in deltas) <= 1_100_000
        [end] = [event for event in client.events(call_) if event["type"] == "exec_command_end"]
        assert len(end["stdout"]) < 60_000


@pytest.mark.slow
async def test_a_flood_that_nobody_reads_does_not_keep_the_server_from_answering(tmp_path: Path) -> None:
    async with scene([start("yes"), say("one"), say("two")], tmp_path, config=CONTAINED) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="1"))
        for _ in range(20):
            await client.request("ping")
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="2")) == "two"
        assert resident_bytes(client.process.pid) < 300_000_000


@pytest.mark.slow
async def test_the_model_is_given_as_many_tokens_as_it_wants_and_no_more_than_there_may_be(tmp_path: Path) -> None:
    many = "yes 123456789 | head -n 40000"
    script = [
        start(many, max_output_tokens=100, yield_time_ms=30_000),
        call("exec_command", cmd=many, max_output_tokens=10**12, yield_time_ms=30_000, call_id="call2"),
        call("exec_command", cmd="echo hi", max_output_tokens=0, yield_time_ms=30_000, call_id="call3"),
    ]
    small, large, none = (Told(text) for text in await told(script, tmp_path))
    assert (small.tokens, large.tokens) == (100_000, 100_000)
    assert len(small.output) < 500
    assert len(large.output) < 140_000
    assert "omitted" in small.output
    assert "omitted" in large.output
    assert none.output == "\n[... omitted 3 of 3 bytes ...]\n"


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", [424242, 0, -1, 1, 10**20, 1002])
async def test_a_number_that_is_nobody_s_is_unknown(tmp_path: Path, number: int) -> None:
    [_, text] = await told([start("sleep 60"), write("x\n", number)], tmp_path)
    assert text == UNKNOWN.format(number)


@pytest.mark.quick(1)
@pytest.mark.parametrize("given", ['"x"', "1001.5", "null", "[1001]", "true", '"１００１"', "1e400"])
async def test_what_is_no_number_is_told_as_such(tmp_path: Path, given: str) -> None:
    wrong = call("write_stdin", arguments_text=f'{{"session_id": {given}, "chars": "x"}}')
    [text] = await told([wrong], tmp_path)
    assert text.startswith(("write_stdin failed: ", "failed to parse function arguments: "))


async def test_the_number_of_another_conversation_reaches_nothing(tmp_path: Path) -> None:
    typed = write("mine\n", call_id="call3", yield_time_ms=30_000)
    script = [start("read x; echo $x > got", tty=True), say("one"), write("stolen\n"), say("two"), typed, say("three")]
    async with scene(script, tmp_path, config=CONTAINED) as (model, client):
        mine = thread_of(await client.call_tool("codex", prompt="1"))
        await client.call_tool("codex", prompt="2")
        assert told_to_model(model.requests[3], "call2") == UNKNOWN.format(FIRST)
        assert not (tmp_path / "got").exists()
        await client.call_tool("codex-reply", threadId=mine, prompt="3")
        assert (tmp_path / "got").read_text() == "mine\n"


@pytest.mark.slow
async def test_the_seventeenth_is_refused_with_what_to_do_and_the_others_go_on(tmp_path: Path) -> None:
    sixteen = tuple(
        ToolCall("exec_command", json.dumps({"cmd": "sleep 600", "yield_time_ms": 250}), f"call{n}") for n in range(1, 18)
    )
    stop = write("\x03", call_id="stop", yield_time_ms=30_000)
    again = call("exec_command", cmd="echo room", yield_time_ms=30_000, call_id="again")
    texts = await told([Answer(sixteen), stop, again], tmp_path)
    assert [Told(text).session for text in texts[:16]] == list(range(FIRST, FIRST + 16))
    assert texts[16].startswith("exec_command failed: 16 commands are running in sessions, which is the most. End one first")
    assert "1001 (sleep 600)" in texts[16]
    assert Told(texts[17]).exit_code in (143, 137)  # asked to end, and ended a moment later
    assert Told(texts[18]).output == "room\n"


async def test_without_a_terminal_nothing_can_be_typed(tmp_path: Path) -> None:
    [_, text] = await told([start("sleep 60"), write("x\n")], tmp_path)
    assert text.startswith("write_stdin failed: the session has no terminal")


async def test_typing_again_and_again_at_what_does_not_read_is_refused_and_ctrl_c_still_works(tmp_path: Path) -> None:
    line = "x" * 60 + "\n"
    script = [start("stty -echo; exec sleep 600", tty=True)]
    script += [write(line * 600, call_id=f"w{n}", yield_time_ms=250) for n in range(8)]
    texts = await told([*script, write("\x03", call_id="stop", yield_time_ms=30_000)], tmp_path)
    assert any(text.startswith("write_stdin failed: the program does not read") for text in texts)
    assert Told(texts[-1]).exit_code == 130


@pytest.mark.slow
async def test_what_is_typed_after_the_end_reaches_nothing_and_the_end_is_told(tmp_path: Path) -> None:
    wait = call("shell", command=["sh", "-c", "touch go; until test -e over; do sleep 0.05; done; sleep 0.2"], call_id="wait")
    line = "until test -e go; do sleep 0.05; done; echo bye; touch over; exit 5"
    late = [write("x\n", call_id="call2", yield_time_ms=30_000), write("x\n", call_id="call3")]
    texts = await told([start(line, tty=True), wait, *late], tmp_path)
    last = Told(texts[2])
    assert last.exit_code == 5
    assert "bye\r\n" in Told(texts[0]).output + last.output
    assert texts[3] == UNKNOWN.format(FIRST)


@pytest.mark.slow
async def test_control_sequences_of_a_terminal_do_not_reach_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    printed = r"printf '\033]52;c;aGFja2Vk\007\033]0;title\007\033[2J\302\233end\n'; read x"
    script = [start(printed, tty=True), write("\x1b]0;typed\x07\n", yield_time_ms=30_000), say("done")]
    async with scene(script, tmp_path, home=home, config=CONTAINED) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="go"))
    environment = {"CODEX_HOME": str(home), "PATH": os.environ["PATH"]}
    argv = (sys.executable, "-m", "understudy", "show", thread)
    shown = await asyncio.create_subprocess_exec(*argv, env=environment, stdout=asyncio.subprocess.PIPE)
    text = (await asyncio.wait_for(shown.communicate(), WAIT_SECONDS))[0]
    assert shown.returncode == 0
    assert b"end" in text
    for forbidden in (b"\x1b", b"\x07", b"\x9b", b"\xc2\x9b"):
        assert forbidden not in text, text


@pytest.mark.slow
async def test_what_leaves_the_session_s_process_group_ends_with_it(tmp_path: Path) -> None:
    mark = str(100_000_000 + secrets.randbelow(900_000_000))
    script = f"(setsid nohup sh -c 'trap \"\" HUP TERM INT; sleep {mark}' >/dev/null 2>&1 &); echo up; read x"
    await told([start(script, tty=True), write("\n", yield_time_ms=30_000)], tmp_path)
    assert processes_with(f"sleep\0{mark}") == []


async def test_masks_roots_and_the_private_tmp_hold(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    outside = Path("/var/tmp") / f"outside-{secrets.token_hex(4)}"  # /tmp is its own
    line = f"cat {secret}; touch {outside} || echo kept; mkdir .git && touch .git/x || echo kept; echo $TERM"
    [text] = await told([start(line, tty=True, yield_time_ms=30_000)], tmp_path, **{"understudy.sandbox.mask": [str(secret)]})
    assert "the secret" not in text
    assert Told(text).output.count("kept") == 2
    assert Told(text).output.endswith("xterm\r\n")
    assert not outside.exists()


# -- questions


def asking(policy: str, mode: str = "workspace-write") -> dict[str, Any]:
    return {"approval_policy": policy, "sandbox_mode": mode}


async def test_it_is_asked_about_as_a_command_is_and_a_no_runs_nothing(tmp_path: Path) -> None:
    async with scene([start("touch made", tty=True), say("done")], tmp_path, config=asking("untrusted")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert question["params"]["codex_command"] == ["bash", "-lc", "touch made"]
        await client.respond(question, {"decision": "denied"})
        await call_
        assert told_to_model(model.requests[1]) == "exec command rejected by user"
        assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_a_harmless_one_is_not_asked_about_and_stays_contained(tmp_path: Path) -> None:
    async with scene([start("ls", yield_time_ms=30_000), say("done")], tmp_path, config=asking("untrusted")) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "done"
        assert Told(told_to_model(model.requests[1])).exit_code == 0


@pytest.mark.slow
async def test_what_is_typed_at_one_outside_the_sandbox_is_asked_about_each_time(tmp_path: Path) -> None:
    """Else a person who lets a shell leave the sandbox would let everything leave it that is typed there later."""
    script = [
        start("bash --norc", tty=True, sandbox_permissions="require_escalated", justification="need it"),
        write("touch ../made\n"),
        write("exit\n", call_id="call3", yield_time_ms=30_000),
        say("done"),
    ]
    work = tmp_path / "work"
    work.mkdir()
    async with scene(script, work, config=asking("on-request")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        first = await client.next_request("elicitation/create")
        assert "outside the sandbox" in str(first["params"])
        await client.respond(first, {"decision": "approved"})
        second = await client.next_request("elicitation/create")
        assert second["params"]["codex_command"] == ["write_stdin", str(FIRST), "touch ../made\n"]
        assert "typed at the terminal of `bash -lc 'bash --norc'`, which runs outside the sandbox" in str(second["params"])
        assert "A yes for the session also answers for everything that is typed there later." in str(second["params"])
        await client.respond(second, {"decision": "denied"})
        third = await client.next_request("elicitation/create")
        await client.respond(third, {"decision": "approved"})
        assert text_of(await call_) == "done"
        assert told_to_model(model.requests[2], "call2") == "write_stdin rejected by user"
        assert Told(told_to_model(model.requests[3], "call3")).exit_code == 0
        assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_an_approval_for_the_session_covers_what_is_typed_there_later(tmp_path: Path) -> None:
    script = [
        start("bash --norc", tty=True),
        write("echo a\n"),
        write("exit\n", call_id="call3", yield_time_ms=30_000),
        say("done"),
    ]
    async with scene(script, tmp_path, config=asking("untrusted")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        for decision in ("approved", "approved_for_session"):
            await client.respond(await client.next_request("elicitation/create"), {"decision": decision})
        assert text_of(await call_) == "done"
        assert Told(told_to_model(model.requests[3], "call3")).exit_code == 0


async def typed_under_another_mode(folder: Path, first: str, second: str, policy: str = "on-request") -> tuple[str, list[Any]]:
    """What the model is told that types at a shell which began under the mode before, and what people were asked."""
    script = [start("bash --norc", tty=True), say("one"), write("touch made; exit\n", yield_time_ms=30_000), say("two")]
    async with scene(script, folder, decide="approved") as (model, client):
        conversation = await create(client, prompt="1", sandbox=first, approval_policy="on-request")
        stream = Stream(client, conversation, after=0)
        await stream.until("task_complete")
        await send(client, conversation, "2", sandbox=second, approval_policy=policy)
        await stream.until("task_complete", 2)
        return told_to_model(model.requests[3], "call2"), client.questions


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("first", "second", "policy"),
    [
        ("danger-full-access", "read-only", "on-request"),
        ("danger-full-access", "workspace-write", "never"),
        ("danger-full-access", "workspace-write", "untrusted"),
        ("workspace-write", "read-only", "on-request"),
    ],
)
async def test_nothing_is_typed_at_one_that_began_when_more_was_allowed(
    tmp_path: Path, first: str, second: str, policy: str
) -> None:
    text, asked = await typed_under_another_mode(tmp_path, first, second, policy)
    assert text.startswith("write_stdin rejected: the command began when more was allowed than now")
    assert (asked, (tmp_path / "made").exists()) == ([], False)


@pytest.mark.slow
@pytest.mark.parametrize("second", ["danger-full-access", "workspace-write", "read-only"])
async def test_one_that_began_when_less_was_allowed_is_typed_at_and_keeps_its_bounds(tmp_path: Path, second: str) -> None:
    text, _ = await typed_under_another_mode(tmp_path, "read-only", second)
    assert "made" in Told(text).output
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_a_question_says_that_the_command_typed_at_has_no_sandbox(tmp_path: Path) -> None:
    text, asked = await typed_under_another_mode(tmp_path, "danger-full-access", "danger-full-access", "untrusted")
    assert [("outside the sandbox" in str(each.params), "in the sandbox" in str(each.params)) for each in asked] == [(True, False)]
    assert (Told(text).exit_code, (tmp_path / "made").exists()) == (0, True)


@pytest.mark.slow
async def test_under_never_it_cannot_ask_to_leave(tmp_path: Path) -> None:
    script = [start("touch ../made", sandbox_permissions="require_escalated"), say("done")]
    work = tmp_path / "work"
    work.mkdir()
    async with scene(script, work, config=asking("never")) as (_, client):
        await client.call_tool("codex", prompt="go")
    assert not (tmp_path / "made").exists()


async def test_a_patch_typed_as_a_command_is_applied_by_the_patch_door(tmp_path: Path) -> None:
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\nEOF\n"
    async with scene([start(patch), say("done")], tmp_path, config=CONTAINED) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        assert (tmp_path / "a.txt").read_text() == "hi\n"
        kinds = [event["type"] for event in client.events(call_)]
        assert "patch_apply_begin" in kinds
        assert "exec_command_begin" not in kinds
