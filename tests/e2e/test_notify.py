"""`notify`: the user's program is told of each completed turn, and nothing waits for it, fails with it or speaks through it."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import is_alive, scene, text_of, thread_of
from tests.sandbox.stage import until
from understudy.testing import hang, say, status
from understudy.testing.waiting import WAIT_SECONDS


def program(tmp_path: Path, body: str) -> str:
    """A script that keeps its last argument in a file of its own in `told`, and then does what `body` says."""
    folder = tmp_path / "told"
    folder.mkdir()
    path = tmp_path / "notify.sh"
    path.write_text(
        f'#!/bin/sh\nfor last; do :; done\nprintf "%s" "$last" > {folder}/.$$\nenv > {folder}/.env.$$\n'
        f"mv {folder}/.env.$$ {folder}/env.$$\nmv {folder}/.$$ {folder}/$$\n{body}\n"
    )
    path.chmod(0o755)
    return str(path)


def told(tmp_path: Path) -> dict[int, dict[str, Any]]:
    """What each process was told, by its id."""
    folder = tmp_path / "told"
    return {int(name): json.loads((folder / name).read_text()) for name in os.listdir(folder) if name.isdigit()}


async def until_told(tmp_path: Path, count: int) -> list[dict[str, Any]]:
    await until(lambda: len(told(tmp_path)) >= count, WAIT_SECONDS)
    return list(told(tmp_path).values())


async def test_the_program_is_told_of_each_turn_in_the_words_of_codex(tmp_path: Path) -> None:
    config = {"notify": [program(tmp_path, ""), "extra"]}
    env = {"MY_SECRET_KEY": "hunter2-hunter2", "DISPLAY": ":7"}
    async with scene([say("Hello."), say("hunter2-hunter2 again")], tmp_path, config=config, env=env) as (_, client):
        first = await client.call_tool("codex", prompt="first words")
        thread = thread_of(first)
        [turn] = await until_told(tmp_path, 1)
        assert turn == {
            "type": "agent-turn-complete",
            "thread-id": thread,
            "turn-id": turn["turn-id"],
            "cwd": str(tmp_path),
            "input-messages": ["first words"],
            "last-assistant-message": "Hello.",
        }
        assert text_of(await client.call_tool("codex-reply", prompt="second words", threadId=thread)) == "hunter2-hunter2 again"
        second = next(turn for turn in await until_told(tmp_path, 2) if len(turn["input-messages"]) == 2)
    assert second["input-messages"] == ["first words", "second words"]
    assert second["last-assistant-message"] == "[redacted] again"  # everybody on the machine can see the arguments of a program
    given = next((tmp_path / "told" / name).read_text() for name in os.listdir(tmp_path / "told") if name.startswith("env."))
    assert "DISPLAY=:7" in given
    assert "MY_SECRET_KEY" not in given


async def test_a_turn_that_fails_or_is_interrupted_is_not_told(tmp_path: Path) -> None:
    config = {"notify": [program(tmp_path, "")]}
    async with scene([status(400, "no"), hang(), say("done")], tmp_path, config=config) as (model, client):
        assert (await client.call_tool("codex", prompt="fails"))["isError"]
        cut = client.call_tool("codex", prompt="is cut")
        await model.next_request(2)
        await client.cancel(cut)
        await cut
        await client.call_tool("codex", prompt="works")
        turns = await until_told(tmp_path, 1)
    assert [turn["input-messages"] for turn in turns] == [["works"]]


@pytest.mark.slow
async def test_a_program_that_hangs_and_floods_holds_up_neither_turn_nor_server(tmp_path: Path) -> None:
    flood = "yes flood | head -c 1000000; yes flood | head -c 1000000 >&2; exec sleep 1000"
    async with scene([say("one"), say("two")], tmp_path, config={"notify": [program(tmp_path, flood)]}) as (_, client):
        first = await client.call_tool("codex", prompt="go")
        await until_told(tmp_path, 1)
        assert text_of(await client.call_tool("codex-reply", prompt="more", threadId=thread_of(first))) == "two"
        await until_told(tmp_path, 2)
        await client.close()  # it goes at once, and not only when the program does
        assert "flood" not in client.stderr
    for pid in told(tmp_path):
        assert is_alive(pid)
        os.kill(pid, signal.SIGKILL)


async def test_a_turn_is_told_though_the_server_ends_right_after_it(tmp_path: Path) -> None:
    async with scene([say("x")], tmp_path, config={"notify": [program(tmp_path, "")]}) as (_, client):
        await client.call_tool("codex", prompt="go")
        await client.close()
    await until_told(tmp_path, 1)


@pytest.mark.slow
async def test_the_program_goes_on_when_the_server_is_killed(tmp_path: Path) -> None:
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; touch {tmp_path}/done"
    async with scene([say("x")], tmp_path, config={"notify": [program(tmp_path, wait)]}) as (_, client):
        await client.call_tool("codex", prompt="go")
        await until_told(tmp_path, 1)
        await client.kill()
    (tmp_path / "go").touch()
    await until((tmp_path / "done").exists, WAIT_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "a folder", "not executable", "no interpreter", "empty"])
async def test_a_program_that_cannot_run_is_named_in_the_log_and_nothing_else_happens(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    match kind:
        case "a folder":
            path.mkdir()
        case "not executable":
            path.write_text("#!/bin/sh\n")
        case "no interpreter":
            path.write_text("#!/no/such/interpreter\n")
            path.chmod(0o755)
        case _:
            pass
    named = "" if kind == "empty" else str(path)
    async with scene([say("one"), say("two")], tmp_path, config={"notify": [named]}) as (_, client):
        first = await client.call_tool("codex", prompt="go")
        second = await client.call_tool("codex-reply", prompt="more", threadId=thread_of(first))
        assert (text_of(first), text_of(second)) == ("one", "two")
        if kind != "no interpreter":  # where `timeout` starts it, only its exit code tells
            await until(lambda: "`notify` was not called" in client.stderr, WAIT_SECONDS)
        await client.close()
        assert "Traceback" not in client.stderr


@pytest.mark.slow
async def test_an_empty_list_calls_nothing(tmp_path: Path) -> None:
    async with scene([say("x")], tmp_path, config={"notify": []}) as (_, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "x"
        await client.close()
        assert "notify" not in client.stderr


@pytest.mark.slow
async def test_a_program_of_the_project_is_not_taken_for_the_users(tmp_path: Path) -> None:
    """A bare name is not looked for in the folder that the agent works in, though the search path says so."""
    work = tmp_path / "work"
    work.mkdir()
    planted = work / "told-of-turns"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/planted\n")
    planted.chmod(0o755)
    env = {"PATH": f".::{os.environ['PATH']}"}
    async with scene([say("x")], work, config={"notify": ["told-of-turns"]}, env=env) as (_, client):
        await client.call_tool("codex", prompt="go")
        await until(lambda: "`notify` was not called" in client.stderr, WAIT_SECONDS)
    with suppress(FileNotFoundError):
        (tmp_path / "planted").unlink()
        raise AssertionError("the project's program ran")
