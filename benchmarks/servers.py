"""The servers that can be measured: how each is started, configured and spoken to."""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.model.process import Model
from benchmarks.model.script import Dialect, Wire

NEWEST = "codex 0.169.0"  # for `exec` and the app server


@dataclass(frozen=True)
class ServerSpec:
    name: str
    command: tuple[str, ...]
    dialect: Dialect = "seed"
    session_key: str = "threadId"  # how `codex-reply` names the session
    wire: Wire = "responses"
    config: str = ""  # more lines of config.toml, before its tables
    provider: str = ""  # more lines of the provider's table
    ours: bool = False
    tools: tuple[str, ...] = ("shell",)  # those of its tools that are measured; the first runs commands where any will do
    answers_cancelled: bool = True  # a cancelled call gets a result; else only the event tells
    env: dict[str, str] = field(default_factory=dict[str, str])

    def write_config(self, home: Path, model: Model) -> None:
        """The same for every server: commands contained, nobody asked, no second try."""
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            'model = "bench-model"\nmodel_provider = "bench"\napproval_policy = "never"\nsandbox_mode = "workspace-write"\n'
            f'{self.config}\n[model_providers.bench]\nname = "bench"\nbase_url = "{model.url(self.dialect)}"\n'
            f'wire_api = "{self.wire}"\nrequest_max_retries = 0\nstream_max_retries = 0\n{self.provider}\n'
        )


OUR_TOOLS = ("shell", "exec_command", "write_stdin", "read_file", "search", "list_files", "edit_file", "view_image", "update_plan")


def ours(command: tuple[str, ...] | None = None, name: str = "understudy") -> ServerSpec:
    return ServerSpec(name, command or _our_command(), ours=True, tools=OUR_TOOLS)


def _our_command() -> tuple[str, ...]:
    """The installed program beside this Python, as a user's client would start it."""
    script = Path(sys.executable).with_name("understudy")
    found = str(script) if script.exists() else shutil.which("understudy")
    return (found, "mcp-server") if found else (sys.executable, "-m", "understudy", "mcp-server")


def seed(binary: Path) -> ServerSpec:
    return ServerSpec("codex 0.20.0", (str(binary), "mcp"), session_key="sessionId")


def newest(binary: Path) -> ServerSpec:
    """It has no MCP server any more."""
    return ServerSpec(NEWEST, (str(binary),), dialect="modern", tools=("exec_command",), provider="supports_websockets = false")


def last(binary: Path) -> ServerSpec:
    return ServerSpec(
        "codex 0.153.4",
        (str(binary), "mcp-server"),
        dialect="modern",
        tools=("exec_command",),
        provider="supports_websockets = false",
        answers_cancelled=False,
    )
