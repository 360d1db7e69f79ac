"""`make mutants`: changes one spot of a file at a time, and tells how many of the changes the fast tests of its folder notice.

The mutants are cosmic-ray's, and one of our own (`all` for `any`). Which are tried is drawn with a seed that is printed. Each
is tried in a copy of the tree, by a fork of a process that has the libraries loaded. One core, at low priority. Not part of CI.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import cosmic_ray.ast
import cosmic_ray.mutating
import cosmic_ray.plugins
import hypothesis
import msgspec
import pytest
from cosmic_ray.operators.operator import Operator

ROOT = Path(__file__).parents[1]
WANTED = 0.85
SLOWER = 3.0  # times as long as the tests take without a change, and some seconds: then a mutant loops for ever, which is noticed
SOME_SECONDS = 10.0
COPIED = ("src", "tests", "docs", "scripts", "benchmarks", "pyproject.toml", "Makefile", "uv.lock")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
# The tests of the folder, those about the file itself first: most mutants are noticed there.
FILES: dict[str, tuple[str, ...]] = {
    "policy/harmless.py": (
        "tests/policy/test_harmless.py",
        "tests/policy/test_ends_of_files.py",
        "tests/policy/test_threats.py",
        "tests/policy",
    ),
    "policy/words.py": ("tests/policy/test_words.py", "tests/policy"),
    "tools/patch/plan.py": ("tests/tools/patch/test_plan.py", "tests/tools"),
    "engine/fold.py": ("tests/engine/test_fold.py", "tests/engine"),
    "engine/feed.py": ("tests/engine/test_feed.py", "tests/engine"),
    "store/writing.py": ("tests/store/test_append.py", "tests/store"),
    "servers/mcp/calls.py": ("tests/servers",),
}
_LOADED = (hypothesis, msgspec)  # before the first fork, so that no mutant has to


class AllForAny(Operator):
    """`all(…)` becomes `any(…)`, and the other way round."""

    _OTHER: ClassVar = {"all": "any", "any": "all"}

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "name" and node.value in self._OTHER:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        assert index == 0
        node.value = self._OTHER[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return ()


def mutants_of(code: str) -> list[str]:
    """Every change that gives another program. Unions in annotations are left alone: any change there fails at once."""
    found: dict[str, None] = {}
    original = ast.dump(ast.parse(code))
    for operator in _operators():
        nodes = cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast(code))
        count = sum(1 for node in nodes for _ in operator.mutation_positions(node))
        for occurrence in range(count):
            mutant = cosmic_ray.mutating.mutate_code(code, operator, occurrence)
            if mutant is None:
                continue
            try:
                if ast.dump(ast.parse(mutant)) != original:
                    found[mutant] = None
            except SyntaxError:
                pass
    return list(found)


def _operators() -> Iterator[Operator]:
    yield AllForAny()
    for name in cosmic_ray.plugins.operator_names():
        if "BitOr" not in name and "VariableReplacer" not in name and "VariableInserter" not in name:
            yield cosmic_ray.plugins.get_operator(name)()


def is_noticed(tree: Path, tests: tuple[str, ...], seconds: float, *, show: bool = False) -> bool:
    """Whether a test fails, in a process of its own, or is not through in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            os.chdir(tree)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0,) if show else (0, 1, 2):
                os.dup2(null, stream)
            sys.path[:0] = [str(tree / "src"), str(tree)]
            hypothesis.settings.register_profile("mutants", derandomize=True, database=None)
            hypothesis.settings.load_profile("mutants")
            code = int(pytest.main(["-x", "-q", "-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.02)


def changed_line(code: str, mutant: str) -> str:
    lines = [line for line in difflib.unified_diff(code.split("\n"), mutant.split("\n"), lineterm="", n=0) if line[:1] in "+-@"]
    return "    ".join(line.strip() for line in lines if not line.startswith(("+++", "---")))


def try_file(name: str, tree: Path, count: int, draw: random.Random) -> float:
    target = tree / "src" / "understudy" / name
    code = target.read_text()
    every = mutants_of(code)
    chosen = every if len(every) <= count else draw.sample(every, count)
    tests = FILES[name]
    began = time.monotonic()
    if is_noticed(tree, tests, 3600, show=True):
        raise SystemExit(f"{name}: its tests fail without any change: {' '.join(tests)}")
    seconds = (time.monotonic() - began) * SLOWER + SOME_SECONDS
    noticed = 0
    for number, mutant in enumerate(chosen, start=1):
        target.write_text(mutant)
        if is_noticed(tree, tests, seconds):
            noticed += 1
        else:
            print(f"{name} {number}: not noticed: {changed_line(code, mutant)}", flush=True)
    target.write_text(code)
    share = noticed / len(chosen)
    print(f"{name}: {noticed} of {len(chosen)} noticed ({share:.0%}), drawn from {len(every)}", flush=True)
    return share


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help=f"of src/understudy; all of these without any: {' '.join(FILES)}")
    parser.add_argument("--count", type=int, default=100, help="mutants per file")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    unknown = [name for name in options.files if name not in FILES]
    if unknown:
        parser.error(f"no tests are named for {', '.join(unknown)}. Known: {', '.join(FILES)}")
    seed: int = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    os.nice(15)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mutants-", dir="/var/tmp") as folder:
        tree = Path(folder)
        for part in (*COPIED, *PAGES):
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, tree / part)
        shares += [try_file(name, tree, options.count, random.Random(f"{seed} {name}")) for name in options.files or FILES]
    return 0 if min(shares) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
