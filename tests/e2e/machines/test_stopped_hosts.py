"""A host that stands still for longer than its lease, while another takes over what it had: when it wakes, it is one too many."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.e2e.workspaces.repositories import project, refs, store
from tests.support.machines import Machines, content, machines
from understudy.testing import ReceivedRequest, call, say
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="machines with folders of their own need mounts")
LEASE = 3


def answer(request: ReceivedRequest) -> Entry:
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return say("on")
    said = str(last["content"])
    if "begin" in said:
        return say("hello")
    if "write" in said:
        return call("shell", command=["sh", "-c", "while :; do echo x >> lines; sleep 0.05; done"], timeout_ms=600_000)
    return call("shell", command=["sh", "-c", "echo on >> effects"])


def seen_by(those: Machines, host: str, path: Path) -> Path:
    """A path as that machine has it."""
    return Path(f"/proc/{those.servers[host].process.pid}/root{path}")


async def until_there(path: Path) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_host_that_wakes_after_it_was_taken_over_writes_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    source, kept, clones = project(tmp_path / "project"), store(tmp_path / "kept"), tmp_path / "clones"
    clones.mkdir()
    config = {
        "understudy.cluster.lease_seconds": LEASE,
        "understudy.cluster.snapshots": str(kept),
        "understudy.cluster.workspaces": str(clones),
    }
    async with machines(tmp_path, answer, workers=(), config=config) as those:
        for host in ("a", "b"):
            await those.start("worker", host, own=clones)
        await those.until_served(2)
        x, rest = await those.client("x"), those.rest("y")
        name = (await rest.post("/v1/conversations", {"prompt": "begin", "workspace": {"kind": "git", "url": str(source)}}))["id"]
        stream = await rest.stream(name)
        await stream.until("task_complete")
        async with asyncio.timeout(WAIT_SECONDS):
            while not refs(kept):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        [[old]] = those.rows("SELECT host FROM conversations")
        new = "b" if old == "a" else "a"
        await rest.post(f"/v1/conversations/{name}/messages", {"text": "write"})
        lines, effects = (seen_by(those, host, clones / name / file) for host, file in ((old, "lines"), (new, "effects")))
        await until_there(lines)
        those.servers[old].process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(WAIT_SECONDS):
            while content(await x.result("codex-reply", {"threadId": name, "prompt": "go on"})) != "on":
                pass  # for two leases it is told that the host is away
        assert those.rows("SELECT host FROM conversations") == [(new,)]
        written = lines.stat().st_size
        those.servers[old].process.send_signal(signal.SIGCONT)
        await those.until_served(2)
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "go on again"})) == "on"
        assert effects.read_text() == "on\non\n"
        assert lines.stat().st_size == written
        assert those.rows("SELECT host FROM conversations") == [(new,)]
        whole = (await rest.get(f"/v1/conversations/{name}/events"))["events"]
        await stream.until_it(lambda data: data.get("seq") == whole[-1]["seq"])
        assert [event["data"]["seq"] for event in stream.records()] == [event["seq"] for event in whole]
        counted = Counter(event["msg"]["type"] for event in whole)
        expected = {"user_message": 4, "turn_aborted": 1, "task_complete": 3, "exec_command_begin": 3, "exec_command_end": 3}
        assert {kind: counted[kind] for kind in expected} == expected
        verified = await Program(those.servers["x"].home.path, tmp_path).run_aside("verify", name)
        assert verified.code == 0, verified.err
