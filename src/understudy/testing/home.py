"""A `CODEX_HOME` for a test: its config.toml, and the environment and command that start a server on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from understudy.testing.model import ScriptedModel
from understudy.testing.script import Wire

SERVER_COMMAND = (sys.executable, "-m", "understudy", "mcp-server")
_KEPT = ("PATH", "PYTHONPATH", "LANG", "TMPDIR", "COVERAGE_PROCESS_START")  # with the second, the server is the package that we are


def provider_settings(model: ScriptedModel | str, wire: Wire = "chat") -> dict[str, Any]:
    """Settings for using `model` (or its URL): full access, no questions, no retries. A test adds its own."""
    provider = "model_providers.mock"
    return {
        "model": "mock-model",
        "model_provider": "mock",
        f"{provider}.name": "Mock provider",
        f"{provider}.base_url": model if isinstance(model, str) else model.url,
        f"{provider}.wire_api": wire,
        f"{provider}.request_max_retries": 0,
        f"{provider}.stream_max_retries": 0,
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
    }


def write_config(path: Path, settings: Mapping[str, Any]) -> None:
    """A config.toml of dotted keys. Values are text, numbers, booleans, and lists and tables of them."""
    path.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()), encoding="utf-8")


def _toml(value: Any) -> str:
    match value:
        case Mapping():
            table = cast(Mapping[str, Any], value)
            return "{" + ", ".join(f"{_toml(key)} = {_toml(inner)}" for key, inner in table.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_toml(inner) for inner in cast(list[Any], value)) + "]"
        case os.PathLike():
            return _toml(os.fspath(cast(os.PathLike[str], value)))
        case _:  # JSON and TOML write these alike, except for one character
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class CodexHome:
    """A folder that a server uses as `~/.codex`, with a config.toml for `model` in it.

    `config` adds to the settings or replaces them. Without both, an existing config.toml stays as it is. The folder's parent is the
    server's `HOME`. If it is used for a second server, that finds the conversations of the first.
    """

    def __init__(
        self,
        path: Path,
        model: ScriptedModel | str | None = None,
        *,
        wire: Wire = "chat",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.path.mkdir(parents=True, exist_ok=True)
        settings = ({} if model is None else provider_settings(model, wire)) | dict(config or {})
        if settings:
            write_config(self.path / "config.toml", settings)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """For a server on this home: few variables of our own, because a test must not depend on keys or proxies that happen to
        be set."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        ours = [name for name in tuple(os.environ) if name.startswith("UNDERSTUDY_")]  # another thread may set and unset others
        kept |= {name: os.environ[name] for name in ours}
        return {**kept, "HOME": str(self.path.parent), "CODEX_HOME": str(self.path), **(more or {})}
