"""The course of the demo: a task with an approval and a patch, and a reply on the same session that is refused something."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from understudy.cli.containing import can_contain
from understudy.cli.demo.client import Direction, McpClient, ServerFailed
from understudy.cli.telling import Teller
from understudy.cli.terminal import open_console
from understudy.cli.wire_events import tell_event

TASK = "sh check.sh fails. Find out why, fix it, and put a copy of hello.sh into ../release."
REPLY = "Thanks. Now remove the release folder again."
ANSWERS = {"a": "approved", "s": "approved_for_session", "d": "denied", "q": "abort"}

_HERE = Path(__file__).parent
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "UNDERSTUDY_SANDBOX_RUNG", "UNDERSTUDY_LOG")


def run_demo(*, ask: bool, wire: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder:
        return _Demo(Path(folder).resolve(), ask=ask, wire=wire).run()


class _Demo:
    def __init__(self, folder: Path, *, ask: bool, wire: bool) -> None:
        self._project = folder / "project"
        self._release = folder / "release"
        self._home = folder / "home"
        self._ask_person = ask
        self._show_lines = wire
        self._console = open_console()
        self._teller = Teller(self._console, cwd=str(self._project))

    def run(self) -> int:
        contained = self._prepare()
        self._head(contained)
        began = time.monotonic()
        command = [sys.executable, "-m", "understudy", "mcp-server"]
        with McpClient(
            command,
            cwd=self._project,
            env=self._environment(),
            on_notification=self._notified,
            on_request=self._asked,
            on_line=self._line if self._show_lines else None,
        ) as client:
            self._meet(client)
            thread = self._call(client, "codex", {"prompt": TASK, "cwd": str(self._project)})
            self._call(client, "codex-reply", {"threadId": thread, "prompt": REPLY})
            self._list(client)
        self._foot(time.monotonic() - began)
        return 0

    # -- the stage

    def _prepare(self) -> bool:
        """Lay everything out; True when commands can be contained here."""
        shutil.copytree(_HERE / "project", self._project)
        self._release.mkdir()
        self._home.mkdir(mode=0o700)
        contained = can_contain()
        mode, policy = ("workspace-write", "on-request") if contained else ("danger-full-access", "untrusted")
        (self._home / "config.toml").write_text(
            f'model_provider = "scripted"\nsandbox_mode = "{mode}"\napproval_policy = "{policy}"\n'
            f"[understudy]\nevents = \"codex/event\"\nscripted_model = '{_HERE / 'answers.toml'}'\n"
        )
        return contained

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, "HOME": str(self._home), "CODEX_HOME": str(self._home)}

    def _head(self, contained: bool) -> None:
        self._console.print(Text("Understudy: a coding agent that other programs call over MCP.", "bold"))
        self._console.print("Below, the real server and a real client. The model plays a script: no key, no network.")
        if not contained:
            self._console.print(
                Text("Commands cannot be contained on this machine (see `understudy doctor`), so they are asked about.", "yellow")
            )

        self._console.print()

    def _foot(self, seconds: float) -> None:
        self._teller.aside(f"That took {seconds:.1f} s; the folder it worked in is gone again.")
        self._console.print("Next: connect your own client (README.md), or see what works here: understudy doctor")

    # -- the exchange

    def _meet(self, client: McpClient) -> None:
        self._teller.aside("→ initialize")
        hello = client.initialize()
        info = hello["serverInfo"]
        self._teller.line("← ", f"{info['name']} {info['version']}, MCP {hello['protocolVersion']}")
        tools = client.request("tools/list", {})["tools"]
        self._teller.line("→ ", "tools/list")
        self._teller.line("← ", ", ".join(tool["name"] for tool in tools))

    def _call(self, client: McpClient, tool: str, arguments: Mapping[str, Any]) -> str:
        self._teller.aside(f"→ tools/call {tool}")
        self._teller.user(arguments["prompt"])
        result = client.call_tool(tool, arguments)
        self._teller.close()
        if result.get("isError"):
            raise ServerFailed(f"{tool}: {result['content'][0]['text']}")
        thread = result["structuredContent"]["threadId"]
        self._teller.aside(f"← the answer, from session {thread}")
        return thread

    def _list(self, client: McpClient) -> None:
        self._teller.aside("→ tools/call conversationsList")
        for row in client.call_tool("conversationsList", {})["structuredContent"]["conversations"]:
            text = f"{row['conversation_id'][:8]}, {row['status']}, {row['message_count']} messages: {row['title']}"
            self._teller.line("← ", text)

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "codex/event":
            tell_event(self._teller, params["msg"])

    def _asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method != "elicitation/create":
            return {}
        self._teller.question(params["message"])
        if self._ask_person:
            decision = self._ask()
            self._teller.answer(decision)
        else:
            decision = "denied" if "`rm " in params["message"] else "approved"
            self._teller.answer(decision, "(by the demo; with --ask it is you)")
        return {"action": "accept", "content": {"decision": decision}}

    def _ask(self) -> str:
        while True:
            try:
                answer = self._console.input("  [a]pprove, [d]eny, [s]ession, [q]uit the turn? ")
            except EOFError:
                return "denied"
            if answer[:1].lower() in ANSWERS:
                return ANSWERS[answer[:1].lower()]

    def _line(self, direction: Direction, line: str) -> None:
        self._teller.close()
        self._console.print(Text(f"{'→' if direction == 'sent' else '←'} {line}", "blue" if direction == "sent" else "cyan"))
