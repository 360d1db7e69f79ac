"""The file of what was said so far, for hooks: whoever they are, whatever they do to it, and however much that is."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.hooks.stage import HookStage
from tests.e2e.rest.test_long_conversations import CALLS_IN_A_STEP, TURNS, written
from tests.support.counted_steps import Steps
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.sandbox.probe import find_bubblewrap
from understudy.testing import ScriptedModel, say, thread_of

OWNER = 12345
WRITE = {"sandbox_mode": "workspace-write"}
KEEP = (  # to a file that is named by a variable: otherwise the hook would count as changed by what it writes
    """T=$(sed -n 's/.*"transcript_path": *"\\([^"]*\\)".*/\\1/p'); N=told; cat "$T" >"$N.txt" 2>&1;"""
    ' cd "${T%/*}"; echo mine >mine && ls >>"$OLDPWD/$N.txt"'
)
HARMS = {
    "fifo": "mkfifo {path}",
    "folder": "mkdir -p {path}/sub",
    "link": "ln -s /etc/passwd {path}",
    "rubbish": "echo rubbish >{path}",
}


@pytest.fixture
def stage(tmp_path: Path) -> HookStage:
    return HookStage(tmp_path)


def trust(stage: HookStage) -> None:
    environment = {**os.environ, "CODEX_HOME": str(stage.home)}
    subprocess.run([sys.executable, "-m", "understudy", "trust", str(stage.work)], env=environment, check=True, capture_output=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("harm", HARMS)
async def test_what_a_contained_hook_puts_in_its_place_holds_up_nobody(stage: HookStage, harm: str) -> None:
    """And the transcript of a hook with the user's rights is another file."""
    path = "/tmp/transcript-claude.jsonl"
    command = f"cat >/dev/null; rm -rf {path}; " + HARMS[harm].format(path=path)
    stage.install("UserPromptSubmit", command, file="work/.claude/settings.json")
    trust(stage)
    seen = stage.folder / "seen"
    stage.install("Stop", stage.program(f"open({str(seen)!r}, 'a').write(open(said['transcript_path']).read() + '\\n')"))
    async with stage.serve([say("one"), say("two")]) as (_, client):
        thread = thread_of(await client.codex("first"))
        assert "two" in str(await client.call_tool("codex-reply", threadId=thread, prompt="second"))
    lines = [json.loads(line)["message"]["content"][0]["text"] for line in seen.read_text().strip().split("\n\n")[-1].splitlines()]
    assert lines[-3:] == ["one", "second", "two"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """That a stranger may pass through. Not below pytest's own folder, which another run may close at any time."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="transcripts-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


OWNERS = [0, OWNER] if os.geteuid() == 0 else [os.geteuid()]
WAYS = [
    (rung, owner)
    for rung in ("full", "landlock", "bubblewrap")
    for owner in OWNERS
    if (rung, owner) != ("landlock", 0) and (rung != "bubblewrap" or find_bubblewrap())  # landlock runs nothing as root
]


@pytest.mark.quick(2)
@pytest.mark.parametrize(("rung", "owner"), WAYS)
async def test_a_contained_hook_reads_it_as_whoever_it_is(open_folder: Path, rung: str, owner: int) -> None:
    stage = HookStage(open_folder)
    stage.install("Stop", KEEP, file="work/.claude/settings.json")
    trust(stage)
    give(stage.work, owner)
    environment = {"UNDERSTUDY_SANDBOX_RUNG": rung}
    async with stage.serve([say("one"), say("two")], config=WRITE, env=environment) as (_, client):
        thread = thread_of(await client.codex("first"))
        await client.call_tool("codex-reply", threadId=thread, prompt="second")
    told = (stage.work / "told.txt").read_text()
    assert '"text":"one"' in told
    assert '"text":"two"' in told
    assert {"mine", "transcript-claude.jsonl"} <= set(told.split())


def give(tree: Path, owner: int) -> None:
    for folder, _, files in os.walk(tree):
        os.chown(folder, owner, owner)
        for name in files:
            os.chown(os.path.join(folder, name), owner, owner)


@pytest.mark.slow
async def test_that_of_a_long_conversation_is_written_in_short_steps(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    async with ScriptedModel([say("one")]) as model:
        server = HttpServer(tmp_path, model, started_by=steps.started_by)
        name = written(server.home.path, server.cwd, TURNS)
        seen = tmp_path / "seen"
        hook = {
            "hooks": [
                {"type": "command", "command": f"cat {server.home.path}/understudy/tmp/*/transcript-codex.jsonl >{seen}; true"}
            ]
        }
        (server.home.path / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook], "Stop": [hook]}}))
        async with server:
            client = RestClient(server.port, server.token)
            await client.get("/v1/me")
            stream = await client.stream(str(name), f"?after={4 * TURNS}")
            steps.reset()
            await client.post(f"/v1/conversations/{name}/messages", {"text": "go on"})
            await stream.until("task_complete")
            stream.close()
            assert steps.calls < CALLS_IN_A_STEP, steps.where
        assert len(seen.read_text().splitlines()) > TURNS
