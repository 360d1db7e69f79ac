"""Claude Code as it is released, at a terminal and with `-p`, over pipes and HTTP: what its model gets, and what its user does."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import server_task
from tests.e2e.scenes import told_to_model
from tests.e2e.test_files_on_disk import plant
from tests.e2e.test_user_input import COLOUR, NAME
from tests.support.claude_code import DOWN, ENTER, ESCAPE, RIGHT, TOOLS, MessagesModel, Terminal, command, in_terminal, text, use
from tests.support.http_server import HttpServer
from tests.support.seeing_relay import SeeingRelay
from understudy.testing import HOLD, SERVER_COMMAND, Entry, Script, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

Json = dict[str, Any]
ASKING: Script = [call("shell", call_id="c1", command=["touch", "made.txt"]), say("all done")]
FORM = "Esc to answer later"
UNTRUSTED: Json = {"approval_policy": "untrusted"}


class Scene:
    """Claude Code at a terminal, its model, our server and the model of that."""

    def __init__(self, terminal: Terminal, its: MessagesModel, ours: ScriptedModel, work: Path) -> None:
        self.terminal = terminal
        self.its = its
        self.ours = ours
        self.work = work  # of our server

    async def begin(self) -> None:
        await self.terminal.enter("delegate")

    async def asked(self, count: int) -> Json:
        """The last message of that request of its model."""
        await self.terminal.until(lambda: len(self.its.requests) >= count)
        return self.its.requests[count - 1]

    async def told(self, count: int) -> str:
        """All that is in that request, as text."""
        return json.dumps((await self.asked(count))["messages"], ensure_ascii=False)

    async def until_form(self) -> None:
        await self.terminal.until_shown("requests your input")
        await self.terminal.until_shown(FORM)

    async def open_question(self) -> None:
        """One that was left for later."""
        await self.terminal.until_shown("needs your input")
        await self.terminal.press(DOWN, "enter to view tasks")
        await self.terminal.press(ENTER, "Enter to answer")
        self.terminal.leave(ENTER)
        await self.until_form()

    async def accept(self) -> None:
        await self.terminal.press(DOWN, "❯ Accept")
        await self._leave_form()

    async def decline(self) -> None:
        await self.terminal.press(DOWN, "❯ Accept")
        await self.terminal.press(RIGHT, "❯ Decline")
        await self._leave_form()

    async def _leave_form(self) -> None:
        """Now and then it takes no key for a moment after it has shown something."""
        presses = 0

        def gone() -> bool:
            nonlocal presses
            if presses % 20 == 0:
                self.terminal.leave(ENTER)
            presses += 1
            return not self.terminal.shows(FORM)

        await self.terminal.until(gone)


class Pipes(Scene):
    seen: Path

    async def kill(self) -> None:
        os.kill(int((self.seen.parent / "pid").read_text().split()[-1]), signal.SIGKILL)

    def was_sent(self, method: str) -> int:
        return self.seen.read_text().count(json.dumps(method)) if self.seen.exists() else 0

    async def start(self) -> None:
        """It starts a program again only where its user says so."""
        await self.terminal.enter("/mcp reconnect codex")
        await self.terminal.until_shown("Reconnected to codex")


class Http(Scene):
    relay: SeeingRelay
    server: HttpServer

    async def kill(self) -> None:
        await self.server.kill()

    async def start(self) -> None:
        await self.server.start()

    def was_sent(self, method: str) -> int:
        return self.relay.seen.count(json.dumps(method).encode())


async def _ready(scene: Pipes | Http) -> None:
    """It shows its prompt earlier than it knows the tools."""
    await scene.terminal.until(lambda: scene.terminal.shows("❯") and scene.was_sent("tools/list"))


@asynccontextmanager
async def over_pipes(folder: Path, ours: ScriptedModel, its: MessagesModel) -> AsyncGenerator[Pipes]:
    task = server_task(folder, ours.url, **UNTRUSTED)
    home = Path(task["env"]["CODEX_HOME"])
    pid, seen, cwd = (shlex.quote(str(path)) for path in (home / "pid", home / "seen", task["cwd"]))
    watched = f"cd {cwd}; echo $$ >> {pid}; exec {shlex.join([task['command'], *task['args']])} < <(tee -a {seen})"
    entry = {"type": "stdio", "command": "bash", "args": ["-c", watched], "env": task["env"]}
    argv, environment = command(folder, its, entry)
    async with in_terminal(argv, environment, folder) as terminal:
        scene = Pipes(terminal, its, ours, Path(task["cwd"]))
        scene.seen = home / "seen"
        await _ready(scene)
        yield scene


@asynccontextmanager
async def over_http(folder: Path, ours: ScriptedModel, its: MessagesModel) -> AsyncGenerator[Http]:
    async with HttpServer(folder, ours, config=UNTRUSTED) as server, SeeingRelay(server.port) as relay:
        headers = {"Authorization": f"Bearer {server.token}"}
        entry = {"type": "http", "url": f"http://127.0.0.1:{relay.port}/mcp", "headers": headers}
        argv, environment = command(folder, its, entry)
        async with in_terminal(argv, environment, folder) as terminal:
            scene = Http(terminal, its, ours, server.cwd)
            scene.relay, scene.server = relay, server
            await _ready(scene)
            yield scene


WAYS = [over_pipes, over_http]


@asynccontextmanager
async def stage(way: Any, folder: Path, ours: Script, its: Sequence[Json | Callable[[Json], Json]]) -> AsyncGenerator[Any]:
    """`ours`: what the model of our server says, at most; `its`: what that of Claude Code says."""
    answers = iter(ours)

    def answer(_: object) -> Entry:
        return next(answers)

    async with ScriptedModel(answer) as model:
        with MessagesModel(its) as told:
            async with way(folder, model, told) as scene:
                yield scene


BEGIN = use("mcp__codex__codex", prompt="hi")


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_goes_to_the_background_and_its_result_comes_as_a_notification(tmp_path: Path, way: Any) -> None:
    """The ids of tasks are short enough for it, the tools are offered without a search, and the report is brief."""
    its = [BEGIN, text("started it"), _reply, text("went on"), text("saw it all")]
    async with stage(way, tmp_path, [say("Hello from the session."), say("Hello again.")], its) as scene:
        await scene.begin()
        offered = [tool["name"] for tool in (await scene.asked(2))["tools"]]
        assert set(TOOLS) <= set(offered)
        begun = await scene.told(2)
        assert re.search(r"started server-side task [\x21-\x7e]{1,48}\. It was moved to the background", begun), begun
        ended = await scene.told(3)
        assert "<status>completed</status>" in ended
        assert "Hello from the session." in ended
        assert "seconds" not in ended, "the whole report"
        again = await scene.told(5)
        assert again.count("<status>completed</status>") == 2
        assert "Hello again." in again
        history = json.dumps(scene.ours.requests[1])
        assert "Hello from the session." in history, "the reply goes on with the thread"


def _reply(request: Json) -> Json:
    [thread] = set(re.findall(r'threadId\\+":\\+"([0-9a-f-]{36})', json.dumps(request["messages"])))
    return use("mcp__codex__codex-reply", threadId=thread, prompt="go on")


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_is_its_own_form_and_accepting_it_runs_the_command(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, ASKING, [BEGIN, text("started it"), text("saw the end")]) as scene:
        await scene.begin()
        await scene.until_form()
        assert scene.terminal.shows("Allow Codex to run `touch made.txt`")
        await scene.accept()
        ended = await scene.told(3)
    assert "all done" in ended
    assert (scene.work / "made.txt").exists()


async def test_its_form_shows_how_a_long_command_ends_and_what_a_yes_lifts(tmp_path: Path) -> None:
    """It shows three lines of a question, and cuts each."""
    line = f"echo {' '.join(map(str, range(200)))}; rm -rf /precious"
    ours = [call("shell", call_id="c1", command=["bash", "-lc", line]), say("all done")]
    async with stage(over_pipes, tmp_path, ours, [BEGIN, text("started it")]) as scene:
        await scene.begin()
        await scene.until_form()
        assert scene.terminal.shows("; rm -rf /precious'`")
        assert scene.terminal.shows("There is no sandbox in this mode")


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_that_is_declined_at_the_terminal_runs_nothing(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, ASKING, [BEGIN, text("started it"), text("saw the end")]) as scene:
        await scene.begin()
        await scene.until_form()
        await scene.decline()
        ended = await scene.told(3)
        assert "exec command rejected by user" in told_to_model(scene.ours.requests[1], "c1")
    assert "<status>completed</status>" in ended
    assert not (scene.work / "made.txt").exists()


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_left_for_later_is_asked_again_and_can_be_answered(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, ASKING, [BEGIN, text("started it"), text("saw the end")]) as scene:
        await scene.begin()
        await scene.until_form()
        await scene.terminal.press(ESCAPE, "needs your input")
        await scene.open_question()
        await scene.accept()
        await scene.told(3)
    assert (scene.work / "made.txt").exists()


@pytest.mark.parametrize("way", WAYS)
async def test_escape_leaves_a_task_running_and_its_list_of_tasks_stops_it(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, [deltas(["I begin", HOLD, "never"])], [BEGIN, text("started it")]) as scene:
        await scene.begin()
        await scene.asked(2)
        await scene.terminal.until_shown("1 MCP task still running")
        scene.terminal.leave(ESCAPE)
        polls = scene.was_sent("tasks/get")
        await scene.terminal.until(lambda: scene.was_sent("tasks/get") > polls + 1)
        assert not scene.was_sent("tasks/cancel")
        await scene.terminal.press(DOWN, "enter to view tasks")
        await scene.terminal.press(ENTER, "x to stop")
        await scene.terminal.press("x", "No tasks currently running")
        await scene.terminal.until(lambda: scene.was_sent("tasks/cancel") == 2)
        assert await scene.ours.outcome(1) == "dropped"


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_outlives_a_killed_server(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, ASKING, [BEGIN, text("started it"), text("saw the end")]) as scene:
        await scene.begin()
        await scene.until_form()
        await scene.terminal.press(ESCAPE, "needs your input")
        await scene.kill()
        await scene.start()
        await scene.open_question()
        await scene.accept()
        assert "all done" in await scene.told(3)
    assert (scene.work / "made.txt").exists()


@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_that_a_killed_server_ran_is_told_as_cut_off_at_the_next_poll(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, [deltas(["I begin", HOLD, "never"])], [BEGIN, text("started it"), text("saw it")]) as scene:
        await scene.begin()
        await scene.asked(2)
        polls = scene.was_sent("tasks/get")
        await scene.terminal.until(lambda: scene.was_sent("tasks/get") > polls + 1)
        await scene.kill()
        await scene.start()
        ended = await scene.told(3)
    assert "<status>failed</status>" in ended
    assert "Turn interrupted" in ended
    assert "the server that ran this turn ended before it was over" in ended


def test_without_a_terminal_it_is_told_which_question_was_cancelled_and_what_to_set(tmp_path: Path) -> None:
    with MessagesModel([use("mcp__codex__codex", prompt="hi"), text("I see")]) as model:
        argv, environment = command(tmp_path, model, _scripted(tmp_path), "-p", "delegate")
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=4 * WAIT_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done
    told = json.dumps(model.requests[-1]["messages"])
    assert "touch made.txt" in told
    assert "the client cancelled the question" in told
    assert "approval-policy never" in told
    assert not (tmp_path / "made.txt").exists()


def _scripted(folder: Path) -> Json:
    """Our server with the built-in model of scripts, which asks."""
    home = folder / "codex home"
    home.mkdir()
    (home / "script.json").write_text('[{"call": "shell", "arguments": {"command": ["touch", "made.txt"]}}, {"say": "done"}]')
    settings = {"model_provider": "scripted", **UNTRUSTED, "understudy.scripted_model": str(home / "script.json")}
    (home / "config.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    return {"type": "stdio", "command": SERVER_COMMAND[0], "args": list(SERVER_COMMAND[1:]), "env": {"CODEX_HOME": str(home)}}


PAINT: Script = [call("request_user_input", call_id="c1", questions=[COLOUR, NAME]), say("Painted.")]


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_model_wants_to_know_is_asked_by_a_form_and_the_turn_goes_on(tmp_path: Path, way: Any) -> None:
    async with stage(way, tmp_path, PAINT, [BEGIN, text("started it"), text("saw it")]) as scene:
        await scene.begin()
        await scene.until_form()
        assert scene.terminal.shows("Colour: Which colour?")
        await scene.terminal.press(RIGHT, "◯ Blue: cold")
        await scene.terminal.press(DOWN, "❯ ◯ Blue: cold")
        await scene.terminal.press(ENTER, "✔ Colour: Blue: cold")
        await scene.terminal.press(DOWN, "❯ * Name")
        await scene.terminal.press("Bob", "Name: Bob")
        await scene.accept()
        assert "Painted." in await scene.told(3)
        answers = json.loads(told_to_model(scene.ours.requests[1], "c1"))["answers"]
    assert answers == {"color": {"answers": ["Blue"]}, "name": {"answers": ["Bob"]}}


async def test_a_question_that_is_declined_is_told_to_the_model_in_words(tmp_path: Path) -> None:
    async with stage(over_pipes, tmp_path, PAINT, [BEGIN, text("started it"), text("saw it")]) as scene:
        await scene.begin()
        await scene.until_form()
        await scene.terminal.press(DOWN, "Instead of an option, or beside it")
        await scene.terminal.press(DOWN, "❯ * Name")
        await scene.decline()
        assert "Painted." in await scene.told(3)
        assert told_to_model(scene.ours.requests[1], "c1").startswith("The user declined to answer.")


async def test_an_answer_after_a_restart_goes_on_with_the_turn(tmp_path: Path) -> None:
    async with stage(over_http, tmp_path, PAINT, [BEGIN, text("started it"), text("saw it")]) as scene:
        await scene.begin()
        await scene.until_form()
        scene.terminal.leave(ESCAPE)
        await scene.terminal.until_shown("needs your input")
        await scene.kill()
        await scene.start()
        await scene.open_question()
        await scene.terminal.press(DOWN, "Instead of an option, or beside it")
        await scene.terminal.press("Green", "in your own words: Green")
        await scene.terminal.press(DOWN, "❯ * Name")
        await scene.terminal.press("Ann", "Name: Ann")
        await scene.accept()
        assert "Painted." in await scene.told(3)
        answers = json.loads(told_to_model(scene.ours.requests[1], "c1"))["answers"]
    assert answers == {"color": {"answers": ["Green"]}, "name": {"answers": ["Ann"]}}


@pytest.mark.parametrize("way", WAYS)
async def test_commands_on_disk_are_its_slash_commands(tmp_path: Path, way: Any) -> None:
    plant(tmp_path / "home")
    plant(tmp_path / "user")
    async with stage(way, tmp_path, [], [text("seen")]) as scene:
        await scene.terminal.until(lambda: scene.was_sent("prompts/list"))
        await scene.terminal.press("/mcp__codex__", "/codex:sub:fix (MCP)")
        await scene.terminal.press("sub:fix 12", "12")
        scene.terminal.leave(ENTER)
        assert "Fix ticket 12. 12" in await scene.told(1)  # of more words it sends the first: there is one argument
