"""pytest fixtures for tests of a client. They are there once a test suite names this module, and never by themselves:

    pytest_plugins = ["understudy.testing.fixtures"]  # in the conftest.py beside pytest's configuration

They are ordinary fixtures, so they work with every plugin that runs asynchronous tests on asyncio.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy.testing.home import CodexHome
from understudy.testing.model import ScriptedModel
from understudy.testing.process import McpProcess, StartServer


@pytest.fixture
def codex_home(tmp_path: Path) -> CodexHome:
    """A `CODEX_HOME` of the test's own, still empty."""
    return CodexHome(tmp_path / "user" / ".codex")


@pytest.fixture
def project_folder(tmp_path: Path) -> Path:
    """An empty folder for the agent to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def mcp_server(codex_home: CodexHome, project_folder: Path) -> Iterator[StartServer]:
    """Makes servers, each to be entered by `async with`: `mcp_server(model)`, with the options of `McpProcess`.

    They work in `project_folder` and share `codex_home`, so that the second one finds the conversations of the first. What is
    still running when the test is over is killed.
    """
    made: list[McpProcess] = []

    def make(model: ScriptedModel | str | None = None, **options: Any) -> McpProcess:
        chosen: dict[str, Any] = {"home": codex_home, "cwd": project_folder} | options
        server = McpProcess(model, **chosen)
        made.append(server)
        return server

    yield make
    for server in made:
        server.kill_now()
