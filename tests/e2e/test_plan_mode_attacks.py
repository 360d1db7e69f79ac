"""Plan mode attacked: what was allowed, begun or installed before it does not write in it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hooks.stage import HookStage, answer
from tests.e2e.other_servers import program
from tests.e2e.scenes import told_to_model
from tests.support.rest_client import RestClient, serving_rest
from understudy.testing import ScriptedModel, call, say
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry

PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+x\n*** End Patch"
ASKING: dict[str, Any] = {"approval_policy": "on-request", "sandbox": "workspace-write"}
FULL: dict[str, Any] = {"approval_policy": "never", "sandbox": "danger-full-access"}
BEYOND: dict[str, Any] = {"with_escalated_permissions": True, "justification": "please"}

SERVER = """
import json, pathlib, sys
NAMES = {
    "write": {},
    "look": {"annotations": {"readOnlyHint": True}},
    "odd": {"annotations": {"readOnlyHint": "true", "destructiveHint": False}},
}
for line in sys.stdin:
    said = json.loads(line)
    method = said.get("method")
    if "id" not in said:
        continue
    if method == "initialize":
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": said["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}, **more} for name, more in NAMES.items()]}
    elif method == "tools/call":
        pathlib.Path("by-" + said["params"]["name"]).write_text("x")
        result = {"content": [{"type": "text", "text": "done"}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


async def over(client: RestClient, stream: Any, conversation: str, text: str, **more: Any) -> None:
    await client.post(f"/v1/conversations/{conversation}/messages", {"text": text, **more})
    await stream.until("task_complete")


async def test_what_was_approved_for_the_session_does_not_write(tmp_path: Path) -> None:
    touch: dict[str, Any] = {"command": ["touch", "made"], **BEYOND}
    script = [call("shell", call_id="c1", **touch), say("1"), call("shell", call_id="c2", **touch), say("2")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "go", **ASKING)
        stream = await client.stream(row["id"])
        await stream.until("exec_approval_request")
        await client.post(f"/v1/conversations/{row['id']}/decisions", {"call_id": "c1", "decision": "approved_for_session"})
        await stream.until("task_complete")
        (server.cwd / "made").unlink()
        await over(client, stream, row["id"], "plan", mode="plan")
        assert not (server.cwd / "made").exists()
        assert "plan mode is on" in told_to_model(model.requests[-1], "c2")


@pytest.mark.parametrize("chosen", [FULL, ASKING], ids=["full", "asking"])
@pytest.mark.slow
async def test_nothing_is_typed_at_a_command_that_began_before(tmp_path: Path, chosen: dict[str, Any]) -> None:
    begin: dict[str, Any] = {"cmd": "bash --norc", "tty": True, "yield_time_ms": 250}

    def session(request: ReceivedRequest, call_id: str) -> int:
        return int(told_to_model(request.body, call_id).partition("session ID ")[2].split()[0])

    def entry(request: ReceivedRequest) -> Entry:
        match len([message for message in request.body["messages"] if message["role"] == "tool"]), len(model.requests):
            case 0, _:
                return call("exec_command", call_id="c1", **begin)
            case 1, 2:
                return say("1")
            case 1, _:
                return call(
                    "write_stdin", call_id="c2", session_id=session(request, "c1"), chars="touch typed\n", yield_time_ms=250
                )
            case 2, _:
                return call("write_stdin", call_id="c3", session_id=session(request, "c1"), chars="", yield_time_ms=250)
            case 3, _:
                return call("exec_command", call_id="c4", **begin)
            case 4, _:
                return call(
                    "write_stdin", call_id="c5", session_id=session(request, "c4"), chars="touch typed\n", yield_time_ms=1000
                )
            case _:
                return say("2")

    async with ScriptedModel(entry) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "go", **chosen)
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        await over(client, stream, row["id"], "plan", mode="plan")
        assert "the command began before plan mode" in told_to_model(model.requests[-1], "c2")
        assert "running" in told_to_model(model.requests[-1], "c3")
        assert "touch" in told_to_model(model.requests[-1], "c5")  # it was typed, where nothing can be written
        assert not (server.cwd / "typed").exists()


async def test_a_patch_within_a_command_is_no_way_around(tmp_path: Path) -> None:
    here = f"apply_patch <<'EOF'\n{PATCH}\nEOF"
    script = [
        call("exec_command", call_id="c1", cmd=here),
        call("exec_command", call_id="c2", cmd=f"cd . && {here}"),
        call("shell", call_id="c3", command=["sh", "-c", f"(sleep 0; {here})"]),
        call("exec_command", call_id="c4", cmd="git init -q . && git config core.fsmonitor 'touch made'"),
        call("shell", call_id="c5", command=["sh", "-c", "cp /bin/true made; ln -s x link; mkdir folder; mkfifo pipe"]),
        say("2"),
    ]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "go", mode="plan", **FULL)
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        assert list(server.cwd.iterdir()) == []


async def test_tools_of_other_servers_run_only_where_they_say_that_they_look(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    config = {**program("srv", sys.executable, str(file)), "mcp_servers.srv.default_tools_approval_mode": "approve"}
    tools = ("srv__write", "srv__look", "srv__odd")

    script = [*(call(name, call_id=name) for name in tools), say("2")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model, config=config) as (server, client):
        row = await client.create(server.cwd, "go", mode="plan", **FULL)
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        told = [told_to_model(model.requests[-1], name) for name in tools]
        assert sorted(path.name for path in server.cwd.iterdir()) == ["by-look"], told


async def test_hooks_lift_nothing_of_it(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    stage.install("PermissionRequest", stage.program(answer(decision={"behavior": "allow"}), "yes"), "Bash")
    changed = answer(permissionDecision="allow", updatedInput={"command": "touch changed"})
    stage.install("PreToolUse", stage.program(changed, "change"), "Bash")
    script = [
        call("shell", call_id="c1", command=["touch", "made"], **BEYOND),
        call("exec_command", call_id="c2", cmd="touch made", sandbox_permissions="require_escalated", justification="please"),
        say("2"),
    ]
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write", "understudy.hooks.may_allow": True}
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model, config=config) as (server, client):
        row = await client.create(server.cwd, "go", mode="plan", **ASKING)
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        assert list(server.cwd.iterdir()) == []
        assert stage.told("change"), json.dumps(model.requests[-1]["messages"][-3:])
