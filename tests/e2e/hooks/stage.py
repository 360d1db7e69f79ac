"""A server with hooks in its user's home, a scripted model beside it, and words for hooks that say one thing."""

import json
import shlex
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from understudy.testing import CodexHome, LineProcess, McpProcess, Script, ScriptedModel

Files = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]

GUARD = """
import json, os, sys
said = json.load(sys.stdin)
with open({log!r}, "a") as log:
    log.write(json.dumps([{name!r}, said, dict(os.environ)]) + "\\n")
{body}
"""


class HookStage:
    """A folder to work in, a home, and what hooks were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "user" / ".codex"
        self.work = folder / "work"
        self.log = folder / "told.jsonl"
        self.work.mkdir(parents=True)
        self.home.mkdir(parents=True)

    def program(self, body: str = "", name: str = "hook") -> str:
        """The command of a hook that writes down what it is told, and then does this."""
        script = self.folder / f"{name}.py"
        script.write_text(GUARD.format(log=str(self.log), name=name, body=body))
        return f"{shlex.quote(sys.executable)} {script}"

    def install(
        self, event: str, command: str, matcher: str | None = None, *, file: str = ".claude/settings.json", **more: Any
    ) -> None:
        """One more entry in a file of the home, or in one of the work folder where its name begins with `work/`."""
        path = self.folder / file if file.startswith("work/") else self.folder / "user" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        tree: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"hooks": {}}
        group = {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}
        tree["hooks"].setdefault(event, []).append(group)
        path.write_text(json.dumps(tree))

    def told(self, name: str = "hook") -> list[dict[str, Any]]:
        """What that hook was told, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [said for hook, said, _ in map(json.loads, lines) if hook == name]

    def environment(self) -> dict[str, str]:
        """Of the first hook that ran."""
        found: dict[str, str] = json.loads(self.log.read_text().splitlines()[0])[2]
        return found

    @asynccontextmanager
    async def serve(self, script: Script, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
        async with ScriptedModel(script) as model:
            home = CodexHome(self.home, model, config=options.pop("config", {}))
            async with McpProcess(cwd=self.work, home=home.path, **options) as client:
                yield model, client


def answer(**specific: Any) -> str:
    """A line of Python that prints a `hookSpecificOutput` for the event at hand."""
    return f"print(json.dumps({{'hookSpecificOutput': {{'hookEventName': said['hook_event_name'], **{specific!r}}}}}))"


class AppDoor:
    """Asks the app server, and keeps what it tells meanwhile."""

    def __init__(self, process: LineProcess) -> None:
        self._process = process
        self._asked = 0
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._asked += 1
        self._process.send(json.dumps({"id": self._asked, "method": method, "params": params}))
        while True:
            said: dict[str, Any] = json.loads(await self._process.next_line())
            if said.get("id") == self._asked:
                return said["result"]
            self._note(said)

    async def until(self, method: str) -> None:
        while not any(told == method for told, _ in self.told):
            self._note(json.loads(await self._process.next_line()))

    def _note(self, said: dict[str, Any]) -> None:
        if "method" in said:
            self.told.append((said["method"], said["params"]))
