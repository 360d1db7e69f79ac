"""Modules that are loaded when one of their names is asked for, each in an interpreter that has not loaded it before."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.authority import make_authority
from tests.models.loopback import BOUND, loopback
from understudy.servers.late import SELDOM_USED

NAMES_OF = """
import importlib, sys
if {late}:
    from understudy.servers.late import LateModule, loaded_late
    with loaded_late():
        module = importlib.import_module({name!r})
    try:
        module.no_such_name
    except AttributeError as error:
        assert str(error) == "module {name!r} has no attribute 'no_such_name'", error
    assert type(module) is not LateModule
else:
    module = importlib.import_module({name!r})
print(sorted(vars(module)), type(module.__spec__.loader).__name__)
"""

SAME_ANSWERS = """
import functools, sys
from understudy.servers.late import LateModule, loaded_late
with loaded_late():
    import inspect, platform, urllib.parse

class Some:
    def plain(self): ...
    async def waits(self): ...
    @staticmethod
    async def static(): ...

def plain(): ...
def generates(): yield
async def waits(): ...
async def generates_late(): yield
@functools.wraps(waits)
def wraps(): ...
def marked(): ...

from urllib.parse import quote_from_bytes
assert type(urllib.parse) is LateModule
assert quote_from_bytes(b"/a b", safe="") == "%2Fa%20b"
assert quote_from_bytes is not urllib.parse.quote_from_bytes

asked = [plain, generates, waits, generates_late, wraps, Some().plain, Some().waits, Some.static, functools.partial(waits),
         functools.partial(plain), print, Some, 7, generates()]
first = [(inspect.iscoroutinefunction(thing), inspect.isgenerator(thing)) for thing in asked[:4]]
assert type(inspect) is LateModule
system = platform.system()
assert type(platform) is LateModule
known = inspect.iscoroutinefunction
first += [(known(thing), inspect.isgenerator(thing)) for thing in asked[4:]]
inspect.unwrap, platform.machine
if sys.version_info >= (3, 12):
    inspect.markcoroutinefunction(marked)
    assert known(marked)
assert known is not inspect.iscoroutinefunction
assert first == [(inspect.iscoroutinefunction(thing), inspect.isgenerator(thing)) for thing in asked]
assert system == platform.system()
"""

# Its body is not done when another thread asks for what it ends with.
SLOW = """
import threading
early = "early"
answers = []
def ask():
    import slow
    answers.append(slow.last)
asking = threading.Thread(target=ask)
asking.start()
asking.join(0.2)
import slow
last = "last"
"""

ASKED_BY_TWO = """
from understudy.servers.late import LateModule, loaded_late
with loaded_late({"slow": {}}):
    import slow
assert type(slow) is LateModule
slow.early
slow.asking.join(10)
print(slow.answers, type(slow).__name__)
"""

# A request by the modules that the server runs with.
FETCH = """
import sys
url, certificate, kind = sys.argv[1:]
from understudy.servers.late import LateModule, loaded_late
with loaded_late():
    import understudy.servers.mcp.stdio
    import asyncio
    from understudy.models.http import HttpClient, parse_url
    if kind == "uvloop":
        from uvloop import new_event_loop
    else:
        from asyncio import new_event_loop
assert type(sys.modules["asyncio.sslproto"]) is LateModule

async def fetch():
    client = HttpClient({"SSL_CERT_FILE": certificate})
    response = await client.post(parse_url(url), [], [b"{}"], seconds=5)
    print(await response.read_text(5, 1000))
    await client.aclose()

with asyncio.Runner(loop_factory=new_event_loop) as runner:
    runner.run(fetch())
"""


def _run(program: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(SELDOM_USED))
def test_a_late_module_is_the_real_one_once_a_name_was_asked_for(name: str, tmp_path: Path) -> None:
    late, plain = (_run(NAMES_OF.format(name=name, late=late), tmp_path) for late in (True, False))
    assert late == plain


def test_what_is_answered_without_loading_is_what_the_module_would_say(tmp_path: Path) -> None:
    _run(SAME_ANSWERS, tmp_path)


def test_a_thread_that_asks_while_another_loads_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    assert _run(ASKED_BY_TWO, tmp_path) == "['last'] module\n"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_https_is_spoken_with_late_modules_on_both_event_loops(loop: str, tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    async with loopback([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], tls=authority.context) as server:
        arguments = ("-c", FETCH, server.url, str(authority.certificate), loop)
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = await asyncio.wait_for(process.communicate(), 4 * BOUND)
    assert said == (b"ok\n", b"")


def test_a_module_that_fails_to_load_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('broken')")
    program = """
from understudy.servers.late import loaded_late
with loaded_late({"broken": {}}):
    import broken
for _ in range(2):
    try:
        broken.name
    except ValueError as error:
        print(error)
"""
    assert _run(program, tmp_path) == "broken\nbroken\n"
