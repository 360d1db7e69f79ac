"""The bundle of compiled modules: it makes a start faster, and nothing else.

Each test runs the real program from a copy of the package, so that it has a bundle of its own.
"""

import asyncio
import logging
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import understudy
from tests.cli.program import LONGEST
from understudy.testing import McpProcess, ScriptedModel, say

INSTALLED = Path(understudy.__file__).parent
EDITED = ("servers/mcp/handshake.py", "errors.py")  # by these tests
LONG_AGO = 10.0  # seconds: what has changed just now is not bundled

# The real program, with the copy before the installed package. At its end it says which modules came from a bundle.
PROGRAM = """
import atexit, sys
sys.path.insert(0, sys.argv[1])
def tell():
    bundled = [name for name, module in sys.modules.items() if type(getattr(module, "__loader__", None)).__name__ == "_Loader"]
    sys.stderr.write("bundled: " + " ".join(bundled) + "\\n")
atexit.register(tell)
sys.argv[1:] = ["mcp-server"]
from understudy.cli.main import main
sys.exit(main())
"""
# As if a regular expression came from a configuration.
PROGRAM_WITH_A_PATTERN = PROGRAM.replace("sys.exit", "import re\npattern = re.compile('only for me')\nsys.exit")


def set_time(path: str | Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))


class Copy:
    """A copy of the package, and what became of servers that ran from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "understudy"

    @property
    def command(self) -> tuple[str, ...]:
        return self.command_of(PROGRAM)

    def command_of(self, program: str) -> tuple[str, ...]:
        return (sys.executable, "-c", program, str(self.folder))

    @property
    def bundles(self) -> list[Path]:
        return [path for path in (self.package / "cli" / "__pycache__").iterdir() if ".bundle" in path.name]

    @property
    def bundle(self) -> Path:
        [bundle] = self.bundles
        return bundle

    def edit(self, name: str, old: str, new: str) -> None:
        source = self.package / name
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new))

    def settle(self) -> None:
        """As if nothing had changed for some seconds."""
        for folder, _, files in os.walk(self.folder):
            for path in (folder, *(os.path.join(folder, name) for name in files if name.endswith(".py"))):
                if time.time() - os.stat(path).st_mtime < LONG_AGO:
                    set_time(path, time.time() - LONG_AGO)


@pytest.fixture(scope="module")
def unused(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("copy"))
    left_out = shutil.ignore_patterns("*.bundle*", "suite", "static", "bench", "testing")
    shutil.copytree(INSTALLED, copy.package, ignore=left_out)
    copy.settle()
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(copy.package)], check=True, timeout=LONGEST)
    copy.settle()
    return copy


@pytest.fixture
def copy(unused: Copy) -> Generator[Copy]:
    """A copy of the package with its compiled files, and without a bundle."""
    files = {path: (path.read_bytes(), path.stat()) for path in (unused.package / name for name in EDITED)}
    unused.settle()
    yield unused
    for path, (data, status) in files.items():
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for bundle in unused.bundles:
        shutil.rmtree(bundle) if bundle.is_dir() else bundle.unlink()


async def served(copy: Copy, folder: Path, program: str = PROGRAM, **env: str) -> tuple[set[str], dict[str, str]]:
    """A server that answers one call: which modules it took from a bundle, and what it said of itself."""
    (folder / "work").mkdir(exist_ok=True)
    async with ScriptedModel([say("Enjoy!")]) as model:
        client = McpProcess(model.url, cwd=folder / "work", command=copy.command_of(program), env={"PYTHONPATH": "", **env})
        async with client:
            result = await client.call_tool("codex", prompt="hello")
            assert result["structuredContent"]["content"] == "Enjoy!"
    told, _, rest = client.stderr.partition("\n")
    assert told.startswith("bundled:"), client.stderr
    assert rest == ""
    return set(told.removeprefix("bundled:").split()), client.server_info["serverInfo"]


async def test_a_server_leaves_a_bundle_from_which_the_next_one_is_loaded(copy: Copy, tmp_path: Path) -> None:
    assert await served(copy, tmp_path) == (set(), {"name": "understudy", "title": "Understudy", "version": understudy.__version__})
    assert stat.S_IMODE(copy.bundle.stat().st_mode) & 0o022 == 0
    before = copy.bundle.stat().st_ino

    bundled, said = await served(copy, tmp_path)
    assert said["title"] == "Understudy"
    assert {"asyncio.base_events", "msgspec", "understudy.engine.turn.turn", "understudy.servers.mcp.handshake"} <= bundled
    assert len(bundled) > 250
    assert copy.bundle.stat().st_ino == before  # nothing was stale

    assert "understudy.servers.app_server.dispatcher" in await asyncio.to_thread(bundled_by_the_app_server, copy, tmp_path)


def bundled_by_the_app_server(copy: Copy, folder: Path) -> list[str]:
    hello = b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}\n'
    env = {**os.environ, "PYTHONPATH": "", "CODEX_HOME": str(folder)}
    command = (sys.executable, "-c", PROGRAM.replace("mcp-server", "app-server"), str(copy.folder))
    done = subprocess.run(command, input=hello, capture_output=True, env=env, timeout=LONGEST, check=True)
    return done.stderr.decode().removeprefix("bundled:").split()


@pytest.mark.slow
async def test_an_edited_source_counts_at_once_and_is_bundled_again(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    copy.edit("servers/mcp/handshake.py", '"Understudy"', '"Overstudied"')
    bundled, said = await served(copy, tmp_path)
    assert said["title"] == "Overstudied"
    assert "understudy.servers.mcp.handshake" not in bundled

    copy.bundle.unlink()
    copy.settle()
    await served(copy, tmp_path)
    bundled, said = await served(copy, tmp_path)
    assert said["title"] == "Overstudied"
    assert "understudy.servers.mcp.handshake" in bundled


@pytest.mark.slow
async def test_a_source_of_the_same_size_and_another_time_is_not_taken_from_the_bundle(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    copy.edit("servers/mcp/handshake.py", '"Understudy"', '"Underthing"')
    _, said = await served(copy, tmp_path)
    assert said["title"] == "Underthing"


@pytest.mark.slow
async def test_a_new_file_that_python_would_find_first_counts(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    package = copy.package / "servers" / "mcp" / "handshake"
    package.mkdir()
    text = (copy.package / "servers" / "mcp" / "handshake.py").read_text()
    (package / "__init__.py").write_text(text.replace('"Understudy"', '"Package"'))
    try:
        bundled, said = await served(copy, tmp_path)
        assert (bundled, said["title"]) == (set(), "Package")
    finally:
        shutil.rmtree(package)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _spoil_table(data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 0xFF]) + data[201:]


def _spoil_code(data: bytes) -> bytes:
    """One byte in each page."""
    spoilt = bytearray(data)
    for at in range(len(data) // 4, len(data), 4096):
        spoilt[at] ^= 0x55
    return bytes(spoilt)


def _claim_length(data: bytes) -> bytes:
    return data[:20] + b"\xff" * 8 + data[28:]


def _empty(data: bytes) -> bytes:
    return data[:0]


def _replace(data: bytes) -> bytes:
    return b"not a bundle" + data[12:]


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [_spoil_code, _cut, _spoil_table, _claim_length, _empty, _replace])
async def test_a_damaged_bundle_does_no_harm(copy: Copy, tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    await served(copy, tmp_path)
    spoilt = spoil(copy.bundle.read_bytes())
    copy.bundle.write_bytes(spoilt)
    _, said = await served(copy, tmp_path)
    assert said["title"] == "Understudy"
    if not copy.bundles:  # the damage was found late
        await served(copy, tmp_path)
    assert copy.bundle.read_bytes() != spoilt
    assert len((await served(copy, tmp_path))[0]) > 250


@pytest.mark.slow
async def test_a_bundle_that_others_could_have_written_is_not_used(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    bundle, data = copy.bundle, copy.bundle.read_bytes()
    bundle.chmod(0o666)
    assert (await served(copy, tmp_path))[0] == set()
    assert stat.S_IMODE(copy.bundle.stat().st_mode) & 0o022 == 0  # it was made anew

    (tmp_path / "elsewhere").write_bytes(data)
    bundle.unlink()
    bundle.symlink_to(tmp_path / "elsewhere")
    assert (await served(copy, tmp_path))[0] == set()

    if os.geteuid() == 0:
        assert not copy.bundle.is_symlink()
        os.chown(copy.bundle, 12345, 12345)
        assert (await served(copy, tmp_path))[0] == set()


@pytest.mark.slow
async def test_where_no_bundle_can_be_written_nothing_is_said_and_nothing_left(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    bundle = copy.bundle
    bundle.unlink()
    (bundle / "in the way").mkdir(parents=True)
    assert (await served(copy, tmp_path))[0] == set()
    assert copy.bundles == [bundle]


@pytest.mark.slow
async def test_who_wants_no_compiled_files_or_another_path_gets_no_bundle(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path, PYTHONDONTWRITEBYTECODE="1")
    await served(copy, tmp_path, PYTHONPATH=str(tmp_path))
    assert copy.bundles == []
    await served(copy, tmp_path)
    assert (await served(copy, tmp_path, PYTHONPATH=str(tmp_path)))[0] == set()


@pytest.mark.slow
async def test_what_changed_a_moment_ago_is_not_bundled(copy: Copy, tmp_path: Path) -> None:
    set_time(copy.package / "errors.py", time.time() + 60)  # however slow this machine is
    await served(copy, tmp_path)
    assert copy.bundles == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [-3600, 3600], ids=["an hour ago", "before the clock was set back"])
async def test_what_a_killed_server_left_half_written_does_not_stay_for_ever(copy: Copy, tmp_path: Path, seconds: float) -> None:
    await served(copy, tmp_path)
    left = copy.bundle.with_name(copy.bundle.name + ".new")
    copy.bundle.rename(left)
    set_time(left, time.time() + seconds)
    await served(copy, tmp_path)
    assert copy.bundles == []
    await served(copy, tmp_path)
    assert copy.bundle.suffix == ".bundle"


# What Python offers for a module holds for one from the bundle, too.
LOOKING = """
import sys, traceback
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = []
import understudy.cli.main
understudy.cli.main._leave_the_folder()
from understudy.cli.bundle import use_bundle
assert use_bundle()
import importlib, inspect, pathlib, pkgutil
import understudy.models.failures as module
import understudy.tools as package
assert type(module.__loader__).__name__ == "_Loader"
import _decimal
assert pathlib.Path(_decimal.__file__).exists()
assert (_decimal.__spec__.origin, _decimal.__spec__.cached) == (_decimal.__file__, None)
assert pathlib.Path(module.__cached__).exists()
assert package.__path__ == [str(pathlib.Path(package.__file__).parent)]
assert inspect.getsource(module) == pathlib.Path(module.__file__).read_text()
assert pkgutil.get_data("understudy.tools", "__init__.py") == pathlib.Path(package.__file__).read_bytes()
assert importlib.reload(module) is module
import re
compiling = re._compiler.compile
compiled = []
re._compiler.compile = lambda *asked: compiled.append(asked) or compiling(*asked)
import json.decoder, logging
assert compiled == []
for pattern, flags in ((json.decoder.STRINGCHUNK, json.decoder.FLAGS), (logging.StrFormatStyle.fmt_spec, re.I)):
    assert pattern == compiling(pattern.pattern, flags), pattern
re._compiler.compile = compiling
try:
    json.loads("{")
except ValueError as error:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    assert (frame.filename, frame.line) == (json.decoder.__file__, "obj, end = self.scan_once(s, idx)"), frame
sys.path.append(sys.path[0])
import understudy.engine.turn.turn as later
assert type(later.__loader__).__name__ == "SourceFileLoader"
"""


@pytest.mark.slow
async def test_a_bundled_module_is_like_any_other_and_only_found_on_the_same_path(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    env = {**os.environ, "PYTHONPATH": ""}
    words = [sys.executable, "-c", LOOKING, str(copy.folder)]
    looking = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, env=env, stderr=asyncio.subprocess.PIPE)
    _, errors = await asyncio.wait_for(looking.communicate(), LONGEST)
    assert (looking.returncode, errors.decode()) == (0, "")


@pytest.mark.slow
async def test_regular_expressions_of_modules_are_in_the_bundle_and_nobody_elses(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path, PROGRAM_WITH_A_PATTERN)
    assert b"only for me" not in copy.bundle.read_bytes()
    assert logging.PercentStyle.validation_pattern.pattern.encode() in copy.bundle.read_bytes()


@pytest.mark.slow
async def test_a_closed_stream_is_told_as_without_a_bundle(copy: Copy, tmp_path: Path) -> None:
    await served(copy, tmp_path)
    words = ("sh", "-c", 'exec "$@" <&-', "sh", *copy.command)
    env = {**os.environ, "PYTHONPATH": ""}
    started = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, env=env, stderr=asyncio.subprocess.PIPE)
    _, errors = await asyncio.wait_for(started.communicate(), LONGEST)
    assert started.returncode == 1
    assert errors.decode().startswith("understudy: standard input is closed")
