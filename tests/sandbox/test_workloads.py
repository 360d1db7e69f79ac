"""Ordinary work goes on inside the sandbox as it does outside."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.stage import run
from tests.support.interpreter import PLAIN_PYTHON
from understudy.sandbox import Containment, Sandbox

REPOSITORY = """
git init -q && echo one > file && git add file && git -c user.name=n -c user.email=e@x commit -q -m first && echo two >> file
"""
PYTEST = """
mkdir tests && printf 'def test_it(tmp_path):\\n    (tmp_path / "f").write_text("x")\\n' > tests/test_it.py
"""
MAKE = """
printf 'all: a b c d\\na b c d:\\n\\t@sleep 0.02; echo $@ > $@.out\\n' > Makefile
"""
C = r"""
printf '#include <stdio.h>\nint main(void){puts("compiled");return 0;}\n' > main.c
"""
NODE = """
printf '{"name":"t","version":"1.0.0","scripts":{"test":"node --test"}}' > package.json
printf "const t=require('node:test');const {execFileSync}=require('child_process');t('x',()=>{execFileSync('true')});" > a.test.js
"""
CARGO = """
mkdir src && printf 'fn main() { println!("built"); }' > src/main.rs
printf '[package]\\nname = "t"\\nversion = "0.1.0"\\n' > Cargo.toml
"""
MULTIPROCESSING = """
import multiprocessing, concurrent.futures
def double(n): return 2 * n
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool: assert pool.map(double, range(4)) == [0, 2, 4, 6]
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=64); block.close(); block.unlink()
    print("doubled")
"""
SQLITE = """
import sqlite3
for path in ("file.db", "/tmp/file.db"):
    base = sqlite3.connect(path); base.execute("pragma journal_mode=wal"); base.execute("create table t (x)")
    base.execute("insert into t values (1)"); base.commit(); print(base.execute("select * from t").fetchall())
"""
ASYNCIO = """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("echo", "from a child", stdout=-1)
    print((await process.communicate())[0].decode().strip())
asyncio.run(main())
"""
PTY = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", "tty; test -t 0 && test -t 1"])))
"""
LOOPBACK = """
cat > client.py <<'END'
import urllib.request
print(urllib.request.urlopen("http://localhost:8123/").status)
END
python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & server=$!
for n in $(seq 200); do python3 client.py 2>/dev/null && break; sleep 0.05; done
kill $server
"""
Work = tuple[str, list[str], str, list[str], str]


def script(name: str) -> list[str]:
    return [PLAIN_PYTHON, name]


# name, programs it needs, what is prepared outside, the command, what its output has
WORK: list[Work] = [
    ("git status", ["git"], REPOSITORY, ["git", "status", "--short"], " M file"),
    ("git diff", ["git"], REPOSITORY, ["git", "diff"], "+two"),
    ("git log", ["git"], REPOSITORY, ["git", "log", "--oneline"], "first"),
    ("git stash list", ["git"], REPOSITORY, ["sh", "-c", "git stash list && git blame file"], "one"),
    ("make -j", ["make"], MAKE, ["sh", "-c", "make -j4 && cat *.out | wc -l"], "4"),
    ("a compiler", ["gcc"], C, ["sh", "-c", "gcc -o m main.c && ./m"], "compiled"),
    ("multiprocessing", [], "cat > m.py", script("m.py"), "doubled"),
    ("sqlite", [], "cat > s.py", script("s.py"), "[(1,)]\n[(1,)]"),
    ("asyncio", [], "cat > a.py", script("a.py"), "from a child"),
    ("a terminal", [], "cat > p.py", script("p.py"), "/dev/pts/"),
    (
        "archives",
        ["tar"],
        "",
        ["sh", "-c", "mkdir d && touch d/x && chmod 750 d && tar czf t.tgz d && rm -r d && tar xpzf t.tgz && ls d"],
        "x",
    ),
    ("pipes", [], "", ["bash", "-c", "diff <(echo a) <(echo b); seq 100000 | tail -1; cat <<< here"], "100000"),
    (
        "many files",
        [],
        "",
        ["sh", "-c", "for n in $(seq 300); do echo $n > f$n; done; ls | wc -l; find . -name 'f1*' -delete"],
        "300",
    ),
]
INPUT = {"multiprocessing": MULTIPROCESSING, "sqlite": SQLITE, "asyncio": ASYNCIO, "a terminal": PTY}
SLOW: list[Work] = [
    ("pytest", [], PYTEST, [sys.executable, "-m", "pytest", "-q", "tests"], "1 passed"),
    ("npm test", ["npm", "node"], NODE, ["npm", "test"], "pass 1"),
    ("cargo build", ["cargo"], CARGO, ["sh", "-c", "cargo build -q --offline && ./target/debug/t"], "built"),
]


async def try_work(sandbox: Sandbox, contained: Containment, workspace: Path, work: Work) -> None:
    name, programs, preparation, argv, expected = work
    if argv[0] == sys.executable and sys.prefix.startswith("/tmp/"):
        pytest.skip("the environment's packages are below /tmp, hidden inside the sandbox")
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"not installed here: {missing}")
    prepare(preparation, workspace, INPUT.get(name, ""))
    result, output = await run(
        sandbox,
        contained,
        *argv,
        cwd=workspace,
        env={name: os.environ[name] for name in ("HOME", "PYTHONPATH") if name in os.environ},
        timeout=60,
    )
    assert (result.exit_code, expected in output.text()) == (0, True), (result, output.chunks)


def prepare(commands: str, folder: Path, given: str) -> None:
    subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, input=given, text=True, capture_output=True)


@pytest.mark.quick(2)
@pytest.mark.parametrize("work", WORK, ids=lambda work: work[0].replace(" ", "-"))
async def test_ordinary_work(sandbox: Sandbox, contained: Containment, workspace: Path, work: Work) -> None:
    await try_work(sandbox, contained, workspace, work)


@pytest.mark.slow
@pytest.mark.parametrize("work", SLOW, ids=lambda work: work[0].replace(" ", "-"))
async def test_larger_work(sandbox: Sandbox, contained: Containment, workspace: Path, work: Work) -> None:
    await try_work(sandbox, contained, workspace, work)


async def test_a_test_server_can_be_reached_on_its_own_loopback(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    result, output = await run(
        sandbox, dataclasses.replace(contained, network="loopback"), "bash", "-c", LOOPBACK, cwd=workspace, timeout=60
    )
    assert output.text().strip() == "200", (result, output.chunks)
