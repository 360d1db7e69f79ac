"""The fixtures are there for those who name them, and for nobody else."""

from pathlib import Path

import pytest

from tests.docs.test_testing_page import SETTINGS, run_pytest

NAMED = 'pytest_plugins = ["understudy.testing.fixtures"]\n'
WITH_ANYIO = """
import pytest
from understudy.testing import ScriptedModel, say, text_of

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_a_call_is_answered(mcp_server):
    async with ScriptedModel([say("hello")]) as model, mcp_server(model) as server:
        assert text_of(await server.codex("hi")) == "hello"
"""


def written(folder: Path, conftest: str, tests: str) -> None:
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_theirs.py").write_text(tests)


@pytest.mark.slow
def test_they_work_with_another_plugin_for_asynchronous_tests(tmp_path: Path) -> None:
    written(tmp_path, NAMED, WITH_ANYIO)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = run_pytest(tmp_path, "-p", "no:asyncio")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_who_does_not_name_them_does_not_have_them(tmp_path: Path) -> None:
    written(tmp_path, "", "def test_nothing(): pass\n")
    done = run_pytest(tmp_path, "--fixtures")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mcp_server" not in done.stdout
    written(tmp_path, NAMED, "def test_nothing(): pass\n")
    assert "mcp_server" in run_pytest(tmp_path, "--fixtures").stdout


@pytest.mark.slow
def test_their_conftest_may_use_the_rest_of_the_package(tmp_path: Path) -> None:
    """pytest warns, and here that is an error, where a module was imported before it was named."""
    written(
        tmp_path,
        f"from understudy.testing import ScriptedModel\n{NAMED}",
        "def test_nothing(codex_home): assert codex_home.path.is_dir()\n",
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
