"""A server for the official conformance suites: our dispatcher and our HTTP door, with the tools, resources and prompts they want.

    python -m tests.conformance.server --port 3000

It asks for no token, and is at /mcp. What it keeps is in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance import asking_tools, jobs, plain_tools, resources, turns
from tests.conformance.model import start_model
from tests.conformance.offered import Tools, result, text
from understudy.config.home import state_dir
from understudy.config.serve import ServeSettings
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.task_methods import Subscriptions
from understudy.servers.mcp.tool_table import Offer
from understudy.servers.serve.serving import serve
from understudy.testing import CodexHome

SUBSCRIPTIONS = Subscriptions(["toolsListChanged", "promptsListChanged"])
TRIGGERS = Tools()


@TRIGGERS.add("test_trigger_tool_change", "Tells those who listen that the list of tools has changed")
async def tool_change(call: Call) -> Any:
    SUBSCRIPTIONS.tell("toolsListChanged")
    return result(text("Told."))


@TRIGGERS.add("test_trigger_prompt_change", "Tells those who listen that the list of prompts has changed")
async def prompt_change(call: Call) -> Any:
    SUBSCRIPTIONS.tell("promptsListChanged")
    return result(text("Told."))


OFFER = Offer(
    tools={**plain_tools.TOOLS, **asking_tools.TOOLS, **turns.TOOLS, **jobs.TOOLS, **TRIGGERS},
    methods={**resources.METHODS, **jobs.METHODS},
    legacy_methods=resources.LEGACY_METHODS,
    capabilities={
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True},
        "completions": {},
        "logging": {},
    },
    subscriptions=SUBSCRIPTIONS,
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port: int = parser.parse_args().port
    with tempfile.TemporaryDirectory() as folder:
        home = CodexHome(Path(folder) / ".codex", start_model())
        work = Path(folder) / "work"
        work.mkdir()
        os.chdir(work)
        os.environ["CODEX_HOME"] = str(home.path)
        settings = ServeSettings(
            state_dir=state_dir(home.path), port=port, token_file=state_dir(home.path) / "token", no_auth=True, drain_seconds=0
        )
        return serve(settings, (), lambda address: print(f"serves MCP at {address}", flush=True), OFFER)


if __name__ == "__main__":
    raise SystemExit(main())
