"""Our own program inside a writable root, and started in a hostile folder: nobody but its user changes what it loads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.security.house import NEVER, House, attacks, house, patch, script, told
from understudy.config.sandbox import own_code
from understudy.testing import McpProcess, ScriptedModel

PACKAGE = Path(__file__).parents[2] / "src" / "understudy"
NEEDED = ("msgspec", "uvloop", "httptools")


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


def install(folder: Path) -> Path:
    """An environment with the program in it, as `pip install` would leave it; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.copytree(PACKAGE, packages / "understudy", ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        source = Path(sysconfig.get_path("platlib")) / name
        if source.exists():
            shutil.copytree(source, packages / name)
    return folder / "bin" / "python"


@pytest.mark.slow
async def test_no_command_or_patch_changes_a_module_that_the_server_loads_later(place: House, tmp_path: Path) -> None:
    python = install(place.project / ".venv")
    package = next((place.project / ".venv" / "lib").glob("*/site-packages/understudy"))
    late = package / "engine" / "recovery.py"
    marker = place.home / "outside" / "loaded"
    evil = f"open({str(marker)!r}, 'w').close()"
    calls = {
        "append": script(f'echo "{evil}" >> {late.relative_to(place.project)}'),
        "replace": script(f"mv .venv other; mkdir -p .venv; rm -rf {package.relative_to(place.project)}"),
        "cache": script(f"find .venv -name __pycache__ -exec touch {{}}/evil.pyc \\;; echo x > {package.parent}/sitecustomize.py"),
        "python": script("ln -sf /bin/true .venv/bin/python; echo x >> .venv/pyvenv.cfg"),
        "patch": patch(f"*** Add File: {package.parent}/hashlib.py", f"+{evil}"),
        "root": patch("*** Add File: hashlib.py", f"+{evil}"),
        "fine": script("touch made"),
    }
    before = {path: path.read_bytes() for path in (place.project / ".venv").rglob("*.py")}
    async with ScriptedModel(attacks(calls)) as model:
        command = (str(python), "-m", "understudy", "mcp-server")
        async with McpProcess(model.url, cwd=place.project, home=place.settings, config=NEVER, command=command) as client:
            result = await client.call_tool("codex", prompt="go")
            assert "isError" not in result, result
            outcomes = told(model.requests[-1])
            assert '"exit_code":0,' in outcomes["fine"]
            for name in ("append", "replace", "cache"):
                assert '"exit_code":0,' not in outcomes[name], name
            assert outcomes["patch"].startswith("patch rejected: writing to a protected path")
    assert {path: path.read_bytes() for path in (place.project / ".venv").rglob("*.py")} == before
    assert os.readlink(python).endswith(("python", "python3", f"python3.{sys.version_info.minor}"))
    assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize("variable", [None, "", "lib:", "lib"], ids=["-m", "an empty entry", "a last empty one", "a relative one"])
def test_started_in_a_hostile_folder_it_loads_nothing_from_there(tmp_path: Path, variable: str | None) -> None:
    evil = "import os\nos.write(2, b'LOADED')\n"
    for folder in (tmp_path, tmp_path / "lib"):
        folder.mkdir(exist_ok=True)
        for name in ("json", "asyncio", "msgspec", "argparse", "hashlib", "tomllib", "shutil", "understudy_evil"):
            (folder / f"{name}.py").write_text(evil)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    start = ["-m", "understudy"]
    if variable is not None:
        env["PYTHONPATH"] = variable
        start = ["-P", "-c", "from understudy.cli.main import main; raise SystemExit(main())"]
    hello: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    wanted = {"name": "conversationCreate", "arguments": {"model": "m"}}
    create = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": wanted}
    said = "".join(json.dumps(message) + "\n" for message in (hello, create))
    for words in (["mcp-server"], ["conversations"], ["--help"]):
        command = [sys.executable, *start, *words]
        done = subprocess.run(command, input=said, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60, check=False)
        assert "LOADED" not in done.stderr + done.stdout, words
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("variable", [False, True], ids=["by its place", "by PYTHONPATH"])
def test_a_program_that_lies_beside_what_it_needs_finds_it(tmp_path: Path, variable: bool) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    (folder / "understudy").symlink_to(PACKAGE)
    for name in NEEDED:
        (folder / name).symlink_to(Path(sysconfig.get_path("platlib")) / name)
    (folder / "run.py").write_text("from understudy.cli.main import main\nraise SystemExit(main())\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    if variable:
        env["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-S", str(folder / "run.py"), "mcp-server"]
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    done = subprocess.run(command, input=said, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60, check=False)
    assert (done.stderr, done.stdout) == ("", '{"id":1,"jsonrpc":"2.0","result":{}}\n')


def test_what_we_are_made_of_is_protected_where_it_lies_in_a_root() -> None:
    assert own_code([str(PACKAGE.parents[1])])  # this checkout, by which the tests run
    assert own_code([str(PACKAGE)]) == ()  # a root that holds nothing of ours but is part of it is somebody's own choice
    assert own_code(["/nonexistent"]) == ()
    prefix = os.path.realpath(sys.prefix)
    assert any(path == prefix or prefix.startswith(path + "/") for path in own_code([os.path.dirname(prefix)]))
