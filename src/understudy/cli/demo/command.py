"""`understudy demo`: four scenes with a project, a configuration and servers in a temporary folder."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from understudy.cli.demo.mcp_client import Arrivals, Direction, McpClient, ServerFailed
from understudy.cli.demo.wire import WireLines, tell_event
from understudy.cli.ending import ending_tidily
from understudy.cli.tell.telling import Teller
from understudy.cli.tell.terminal import one_line, open_console, shorten
from understudy.cli.tell.viewing import HINT, prompt, read_answer

_HERE = Path(__file__).parent
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "UNDERSTUDY_SANDBOX_RUNG", "UNDERSTUDY_LOG")


class Stage:
    def __init__(self, folder: Path, exchange: Arrivals) -> None:
        self.project = folder / "project"
        self.release = folder / "release"
        self._home = folder / "home"
        self._exchange = exchange
        self._clients: list[McpClient] = []
        self.contained = False

    def lay_out(self) -> None:
        shutil.copytree(_HERE / "project", self.project)
        self.release.mkdir()
        self._home.mkdir(mode=0o700)
        self.contained = self._can_contain()
        mode, policy = ("workspace-write", "on-request") if self.contained else ("danger-full-access", "untrusted")
        (self._home / "config.toml").write_text(
            f'model_provider = "scripted"\nsandbox_mode = "{mode}"\napproval_policy = "{policy}"\n'
            f"[understudy]\nevents = \"codex/event\"\nscripted_model = '{_HERE / 'answers.toml'}'\n"
        )

    def _can_contain(self) -> bool:
        """Tries a real command, because containment may work in general, but not for root."""
        trial = [sys.executable, "-m", "understudy", "sandbox", "--mode", "workspace-write", "--timeout", "20", "--", "true"]
        done = subprocess.run(
            trial, cwd=self.project, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode == 0

    def start_server(self, name: str, *, can_be_asked: bool = True) -> McpClient:
        """Starts the real program on the demo's own store."""
        command = [sys.executable, "-m", "understudy", "mcp-server"]
        client = McpClient(name, self._exchange, command, cwd=self.project, env=self._environment(), can_be_asked=can_be_asked)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, "HOME": str(self._home), "CODEX_HOME": str(self._home)}


TASK = "sh check.sh fails. Find out why, fix it, and put a copy of hello.sh into ../release."
REPLY = "Thanks. Now remove the release folder again."
ELICIT = "elicitation/create"
LONGEST_WIRE_LINE = 240

Message = dict[str, Any]


def run_demo(*, ask: bool, wire: bool) -> int:
    with ending_tidily(), tempfile.TemporaryDirectory(prefix="understudy-demo-", ignore_cleanup_errors=True) as folder:
        return _Demo(Path(folder).resolve(), ask=ask, wire=wire).run()


class _Demo:
    def __init__(self, folder: Path, *, ask: bool, wire: bool) -> None:
        self._ask_person = ask
        self._console = open_console()
        self._wire = WireLines(self._show_line) if wire else None
        self._exchange = Arrivals(self._passed)
        self._stage = Stage(folder, self._exchange)
        self._teller = Teller(self._console, cwd=str(self._stage.project))
        self._seen: Counter[str] = Counter()  # by the client that only watches
        self._watcher: McpClient | None = None

    def run(self) -> int:
        self._stage.lay_out()
        self._head()
        began = time.monotonic()
        try:
            self._play()
        finally:
            self._stage.close()
        self._foot(time.monotonic() - began)
        return 0

    def _play(self) -> None:
        self._scene(1, "A client gives the agent a task.")
        first = self._stage.start_server("client 1")
        self._meet(first)
        thread = self._call(first, "codex", {"prompt": TASK, "cwd": str(self._stage.project)})

        self._scene(2, "A second client, with a server process of its own, attaches late and catches up.")
        self._watcher = self._stage.start_server("client 2", can_be_asked=False)
        self._attach(self._watcher, thread)

        self._scene(3, "The first goes on. While its question is open, its server is killed.")
        self._teller.aside("→ tools/call codex-reply")
        self._teller.user(REPLY)
        first.ask("tools/call", {"name": "codex-reply", "arguments": {"threadId": thread, "prompt": REPLY}})
        question = self._until(lambda client, message: client is first and message.get("method") == ELICIT)
        self._teller.question(question["params"]["message"])
        first.kill()
        self._teller.close()
        self._console.print(Text(f"  ✗ kill -9 {first.pid}: the server is gone, and nobody has answered", "bold red"))

        self._scene(4, "A new server finds the question in the log. Answered there, the turn goes on.")
        again = self._stage.start_server("client 1")
        self._meet(again, briefly=True)
        self._list(again)
        self._teller.aside("→ tools/call conversationStream")
        self._request(again, "tools/call", {"name": "conversationStream", "arguments": {"conversation_id": thread, "after": 0}})
        self._until(lambda client, message: client is again and _event(message).get("type") == "task_complete")
        self._teller.close()
        self._until_the_watcher_knows()
        self._list(again)

    # -- the frame

    def _head(self) -> None:
        self._console.print(Text("Understudy: a coding agent that other programs call over MCP.", "bold"))
        self._console.print("Below, real servers, real clients and real commands. The model plays a script: no key, no network.")
        if self._stage.contained:
            self._console.print("Commands run in the sandbox, inside a temporary folder.")
        else:
            self._console.print(
                Text(
                    "No sandbox is possible on this machine (`understudy doctor` says why), so commands run as you, in a temporary "
                    "folder, and each is asked about first.",
                    "yellow",
                )
            )

    def _foot(self, seconds: float) -> None:
        self._teller.aside(f"That took {seconds:.1f} s; the folder it worked in is gone again.")
        self._console.print(f"Next: connect your own client (README.md), or see what works here: {_program()} doctor")

    def _scene(self, number: int, text: str) -> None:
        self._teller.close()
        self._console.print()
        self._console.print(Text(f"{number}. {text}", "bold cyan"))

    # -- the exchange

    def _meet(self, client: McpClient, *, briefly: bool = False) -> None:
        self._teller.aside(f"→ initialize ({client.name})")
        hello = self._request(client, "initialize", client.initialize_params())
        client.notify("notifications/initialized")
        info = hello["serverInfo"]
        self._teller.line("← ", f"{info['name']} {info['version']}, MCP {hello['protocolVersion']}, process {client.pid}")
        if briefly:
            return
        tools = self._request(client, "tools/list", {})["tools"]
        self._teller.line("→ ", "tools/list")
        self._teller.line("← ", ", ".join(tool["name"] for tool in tools))

    def _call(self, client: McpClient, tool: str, arguments: Mapping[str, Any]) -> str:
        self._teller.aside(f"→ tools/call {tool}")
        self._teller.user(arguments["prompt"])
        result = self._request(client, "tools/call", {"name": tool, "arguments": dict(arguments)})
        self._teller.close()
        if result.get("isError"):
            raise ServerFailed(f"{tool}: {result['content'][0]['text']}")
        thread = result["structuredContent"]["threadId"]
        self._teller.aside(f"← the answer, from conversation {thread}")
        return thread

    def _attach(self, client: McpClient, thread: str) -> None:
        self._meet(client, briefly=True)
        self._teller.aside("→ tools/call conversationStream")
        self._request(client, "tools/call", {"name": "conversationStream", "arguments": {"conversation_id": thread, "after": 0}})
        while not self._seen:
            self._step()
        self._teller.line("← ", f"everything so far, at once: {_counted(self._seen)}")

    def _until_the_watcher_knows(self) -> None:
        while self._seen["task_complete"] < 2:
            self._step()
        self._teller.aside(f"{self._watcher.name if self._watcher else ''} watched all of it: {_counted(self._seen)}")

    def _list(self, client: McpClient) -> None:
        self._teller.aside("→ tools/call conversationsList")
        result = self._request(client, "tools/call", {"name": "conversationsList", "arguments": {}})
        for row in result["structuredContent"]["conversations"]:
            text = f"{row['conversation_id'][:8]}, {row['status']}, {row['message_count']} messages: {row['title']}"
            self._teller.line("← ", text)

    # -- messages

    def _request(self, client: McpClient, method: str, params: Mapping[str, Any]) -> Message:
        """Returns the result. Raises `ServerFailed` for an error."""
        number = client.ask(method, params)
        answer = self._until(lambda sender, message: sender is client and "method" not in message and message["id"] == number)
        if "error" in answer:
            raise ServerFailed(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def _until(self, wanted: Callable[[McpClient, Message], bool]) -> Message:
        """Handle messages until the wanted one has come. If that is a question, the caller answers it."""
        while True:
            client, message = self._exchange.next()
            if wanted(client, message):
                if "id" not in message:
                    self._take(client, message)
                return message
            self._take(client, message)

    def _step(self) -> None:
        self._take(*self._exchange.next())

    def _take(self, client: McpClient, message: Message) -> None:
        if "id" in message and "method" in message:
            client.answer(message, self._asked(message["method"], message["params"]))
        elif client is self._watcher:
            self._watched(message)
        elif (msg := _event(message)) and not (self._wire and msg["type"].endswith("_delta")):  # the wire's lines have them
            tell_event(self._teller, msg)

    def _watched(self, message: Message) -> None:
        match message:
            case {"method": "notifications/initial_state", "params": {"initial_state": {"events": [*events]}}}:
                self._seen.update(str(event["msg"]["type"]) for event in events)
            case _:
                if kind := _event(message).get("type"):
                    self._seen[str(kind)] += 1

    def _asked(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method != ELICIT:
            return {}
        self._teller.question(params["message"])
        if self._ask_person:
            decision = self._ask()
            self._teller.answer(decision)
        else:
            decision = "denied" if params.get("codex_command", [""])[0] == "rm" else "approved"
            self._teller.answer(decision, "(by the demo; try --ask)")
        return {"action": "accept", "content": {"decision": decision}}

    def _ask(self) -> str:
        while True:
            self._console.print(prompt(self._console.width), end="", soft_wrap=True)
            try:
                answer = input()
            except EOFError:
                self._console.print()
                return "denied"
            if not sys.stdin.isatty():
                self._console.print(one_line(answer))  # a terminal has shown what was typed
            if decision := read_answer(answer):
                return decision
            self._console.print(HINT)

    # -- the wire

    def _passed(self, client: McpClient, direction: Direction, message: Message) -> None:
        if self._wire is not None:
            self._wire.take(client, direction, message)

    def _show_line(self, direction: Direction, line: str) -> None:
        self._teller.close()
        width = self._console.width - 2 if self._console.is_terminal else LONGEST_WIRE_LINE
        sent = direction == "sent"
        self._console.print(Text(f"{'→' if sent else '←'} {shorten(line, width)}", "blue" if sent else "cyan"))


def _event(message: Message) -> Mapping[str, Any]:
    """The event in a notification, of either protocol; empty if it has none."""
    match message:
        case {"method": str(), "params": {"msg": {"type": str()} as msg}} if "id" not in message:
            return msg
        case _:
            return {}


_COUNTED = (
    ("user_message", "message", "messages"),
    ("exec_command_end", "command", "commands"),
    ("patch_apply_end", "patch", "patches"),
    ("exec_approval_request", "question", "questions"),
    ("task_complete", "finished turn", "finished turns"),
)


def _program() -> str:
    """The command to type, because `make demo` runs before anything is installed."""
    beside = Path(sys.executable).with_name("understudy")
    if shutil.which("understudy") or not beside.exists():
        return "understudy"
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)


def _counted(seen: Counter[str]) -> str:
    return ", ".join(f"{seen[kind]} {one if seen[kind] == 1 else many}" for kind, one, many in _COUNTED if seen[kind])


def run(options: Namespace) -> int:
    return run_demo(ask=options.ask, wire=options.wire)
