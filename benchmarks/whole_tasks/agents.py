"""How each agent is started for one task on a scripted model."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import (
    CLAUDE_VERSION,
    NEWEST_VERSION,
    OPENCODE_VERSION,
    find_claude,
    find_exec_peers,
    find_opencode,
)
from benchmarks.servers import ServerSpec, ours
from understudy.testing import Answer, call

MODEL = "bench-model"
CLAUDES_MODEL = "claude-sonnet-4-5"  # it takes none that it does not know


@dataclass(frozen=True)
class Start:
    """What is executed, with what in its environment."""

    words: list[str]
    env: dict[str, str]


@dataclass(frozen=True)
class Agent:
    name: str
    start: Callable[[str, str, Path], Start]  # the model's address, the prompt, and a home of its own
    spell: Callable[[str], Answer]  # how its model asks for a command


def all_agents(peers: Path) -> list[Agent]:
    """Ours first. Raises `RuntimeError` where a peer cannot be had."""
    return [
        Agent("understudy exec", _exec(ours()), _shell),
        Agent(f"codex {NEWEST_VERSION} exec", _exec(find_exec_peers(peers)[0]), _exec_command),
        Agent(f"Claude Code {CLAUDE_VERSION} -p", _claude(find_claude(peers)), _bash("Bash")),
        Agent(f"opencode {OPENCODE_VERSION} run", _opencode(find_opencode(peers)), _bash("bash")),
    ]


def _shell(command: str) -> Answer:
    return call("shell", call_id="call_1", command=["bash", "-c", command])


def _exec_command(command: str) -> Answer:
    return call("exec_command", call_id="call_1", cmd=command)


def _bash(tool: str) -> Callable[[str], Answer]:
    return lambda command: call(tool, call_id="call_1", command=command, description="Runs it")


def write_config(home: Path, spec: ServerSpec, url: str) -> None:
    """The same for both programs that read it."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f'model = "{MODEL}"\nmodel_provider = "bench"\napproval_policy = "never"\nsandbox_mode = "workspace-write"\n'
        f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\nwire_api = "responses"\n'
        f"request_max_retries = 0\nstream_max_retries = 0\n{spec.provider}\n"
    )


def _exec(spec: ServerSpec) -> Callable[[str, str, Path], Start]:
    def start(url: str, prompt: str, home: Path) -> Start:
        write_config(home / ".codex", spec, url)
        words = [spec.command[0], "exec", "--json", "--skip-git-repo-check", prompt]
        return Start(words, {"CODEX_HOME": str(home / ".codex")})

    return start


def _claude(binary: Path) -> Callable[[str, str, Path], Start]:
    def start(url: str, prompt: str, home: Path) -> Start:
        options = ["--model", CLAUDES_MODEL, "--output-format", "json", "--allowedTools", "Bash", "--", prompt]
        env = {
            "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        return Start([str(binary), "-p", *options], env)

    return start


def _opencode(binary: Path) -> Callable[[str, str, Path], Start]:
    def start(url: str, prompt: str, home: Path) -> Start:
        return Start([str(binary), "run", "--format", "json", prompt], opencode_environment(url))

    return start


def opencode_environment(url: str) -> dict[str, str]:
    known = {"name": MODEL, "limit": {"context": 200_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "options": {"baseURL": url, "apiKey": "none"}}
    config: dict[str, Any] = {
        "provider": {"bench": {**provider, "models": {MODEL: known}}},
        "model": f"bench/{MODEL}",
        "share": "disabled",
        "autoupdate": False,
        "permission": {"bash": "allow", "edit": "allow"},
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }


def environment(start: Start, home: Path) -> dict[str, str]:
    """Nothing of whoever runs the benchmark, and no way to the network but to the model."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "NO_PROXY": "*", **start.env}
