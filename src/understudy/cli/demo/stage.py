"""Where the demo plays: a project, a configuration and servers of its own, all of it in a folder that is removed again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from understudy.cli.demo.mcp_client import Arrivals, McpClient

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
        """By a real command: a way to contain one may work, and not for root."""
        trial = [sys.executable, "-m", "understudy", "sandbox", "--mode", "workspace-write", "--timeout", "20", "--", "true"]
        done = subprocess.run(
            trial, cwd=self.project, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode == 0

    def start_server(self, name: str, *, can_be_asked: bool = True) -> McpClient:
        """The real program, on the demo's own store."""
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
