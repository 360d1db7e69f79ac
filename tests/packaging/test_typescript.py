"""The TypeScript client: generated from the OpenAPI document, built strictly, and run against a server."""

import asyncio
import json
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.environments import node_with
from tests.support.http_server import HttpServer
from understudy.testing import ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
PROGRAM = """
import { Understudy, UnderstudyError } from "./dist/index.js";

const agent = new Understudy({ url: process.argv[2] ?? "", token: process.argv[3] });
const told: unknown[] = [];
const { id } = await agent.create({ prompt: "go", folder: process.argv[4] ?? "" });
for await (const update of agent.streamItems(id)) {
  const item = update.item;
  if (item?.kind === "question" && item.status === "running") {
    told.push((await agent.decide(id, { call_id: item.asked.call_id, decision: "approved" })).decision);
  }
  if (item?.kind === "message" && item.status === "done") told.push(item.text);
  if (item?.kind === "turn_end") break;
}
told.push((await agent.conversations({ limit: 5 })).conversations.length);
told.push((await agent.export(id, { format: "md" })).includes("All done."));
try {
  await agent.conversation("00000000-0000-4000-8000-000000000000");
} catch (error) {
  if (error instanceof UnderstudyError) told.push(error.code, error.status);
}
console.log(JSON.stringify(told));
"""


def written(folder: Path) -> Path:
    runpy.run_path(str(ROOT / "scripts" / "typescript_client.py"))["write"](folder)
    return folder


def test_every_request_has_a_method_and_every_shape_a_type(tmp_path: Path) -> None:
    client = written(tmp_path / "client")
    index, schema = (client / "src" / "index.ts").read_text(), (client / "src" / "schema.ts").read_text()
    for method in ("create", "sendMessage", "decide", "streamItems", "streamEvents", "watch", "diff", "image", "search"):
        assert f" {method}(" in index
    for name in ("Conversation", "Update", "Command", "Problem"):
        assert f"export interface {name} {{" in schema
    assert "undefined>" not in schema
    assert json.loads((client / "package.json").read_text())["version"] != "0.0.0"


@pytest.mark.slow
async def test_it_builds_and_a_program_runs_with_it(tmp_path: Path) -> None:
    tools = node_with("typescript@5.9.3", "@types/node@20.19.9")
    client = written(tmp_path / "client")
    (client / "node_modules").symlink_to(tools / "node_modules")
    compiler = [shutil.which("node") or "", str(tools / "node_modules" / "typescript" / "bin" / "tsc")]
    built = await asyncio.to_thread(subprocess.run, compiler, cwd=client, capture_output=True, text=True, timeout=10 * WAIT_SECONDS)
    assert built.returncode == 0, built.stdout
    (client / "program.mts").write_text(PROGRAM)
    flags = ["--target", "ES2022", "--module", "NodeNext", "--strict", "--types", "node", "program.mts"]
    checked = await asyncio.to_thread(subprocess.run, [*compiler, *flags], cwd=client, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    script = [call("shell", command=["touch", "made.txt"]), say("All done.")]
    config = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
    async with ScriptedModel(script) as model, HttpServer(tmp_path, model, config=config) as server:
        words = ["node", "program.mjs", f"http://127.0.0.1:{server.port}", server.token, str(server.cwd)]
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=client, env=os.environ, capture_output=True, text=True, timeout=WAIT_SECONDS
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["approved", "All done.", 1, True, "not_found", 404]
        assert (server.cwd / "made.txt").exists()
