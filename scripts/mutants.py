"""`make mutants`: changes one spot of a file at a time, and tells how many of the changes the fast tests of its folder notice.

The mutants are cosmic-ray's, and two kinds of our own (`all` for `any`, and a statement left out). Which are tried is drawn with
a seed that is printed; those that `equivalent_mutants.toml` names, because nothing can tell them from the original, are left out.

Each is tried in a copy of the tree, by a fork of a process that has the libraries loaded: with the tests about the file first, and
only if those pass with the other fast tests of the folder. What takes several times as long as without the change counts as
noticed. Now and then the unchanged file is tried in between: if its tests fail, the run is worth nothing. One core, at low
priority. Not part of CI.
"""

import argparse
import ast
import difflib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import cosmic_ray.ast
import cosmic_ray.mutating
import cosmic_ray.plugins
import hypothesis
import msgspec
import parso.python.tree
import pytest
from cosmic_ray.operators.operator import Operator

ROOT = Path(__file__).parents[1]
WANTED = 0.85
SLOWER = 3.0  # times as long as the tests take without a change, and some seconds: then a mutant loops for ever, which is noticed
SOME_SECONDS = 10.0
GRACE_SECONDS = 5.0
WAIT_SECONDS = "10"  # that a test waits for something; a mutant that never lets it happen should not take a minute
MOST_BYTES = 4 << 30  # of a process: a loop for ever may also grow for ever
BETWEEN_CONTROLS = 25  # mutants
EQUIVALENT = "scripts/equivalent_mutants.toml"
COPIED = ("src", "tests", "docs", "scripts", "benchmarks", "pyproject.toml", "Makefile", "uv.lock")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


class Tests(NamedTuple):
    nearest: tuple[str, ...]  # about the file itself
    folder: str

    def steps(self) -> tuple[tuple[str, ...], ...]:
        return self.nearest, (self.folder, *(f"--ignore={name}" for name in self.nearest))


FILES = {
    "policy/harmless.py": Tests(("tests/policy/test_harmless.py", "tests/policy/test_threats.py"), "tests/policy"),
    "policy/words.py": Tests(("tests/policy/test_words.py",), "tests/policy"),
    "tools/patch/plan.py": Tests(("tests/tools/patch/test_plan.py",), "tests/tools"),
    "engine/fold.py": Tests(("tests/engine/test_fold_values.py", "tests/engine/test_fold.py"), "tests/engine"),
    "engine/tail.py": Tests(("tests/engine/test_tail_values.py", "tests/engine/test_tail.py"), "tests/engine"),
    "engine/broadcast.py": Tests(("tests/engine/test_tail_values.py", "tests/engine/test_tail.py"), "tests/engine"),
    "engine/text_so_far.py": Tests(("tests/engine/test_text_so_far.py", "tests/engine/test_shown_text.py"), "tests/engine"),
    "store/writing.py": Tests(("tests/store/test_writing.py", "tests/store/test_append.py"), "tests/store"),
    "servers/mcp/call_viewer.py": Tests(
        ("tests/servers/test_watching_calls.py", "tests/servers/test_refusals.py", "tests/servers/test_calls.py"), "tests/servers"
    ),
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


class StatementLeftOut(Operator):
    """A call or an assignment inside a function becomes `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "simple_stmt" and node.children[0].type in ("expr_stmt", "atom_expr", "await") and _function_of(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        assert index == 0
        node.children[0] = parso.python.tree.Keyword("pass", node.start_pos, node.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return ()


def _function_of(node: Any) -> Any:
    while node is not None and node.type != "funcdef":
        node = node.parent
    return node


def mutants_of(code: str) -> list[str]:
    """Every change that gives another program. Unions in annotations are left alone: any change there fails at once.
    So are `is` for `==`, which is the same for small numbers, and `/` for `*` among parameters, which is the same for our calls."""
    found: dict[str, None] = {}
    original = _meaning(code)
    for operator in _operators():
        nodes = cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast(code))
        count = sum(1 for node in nodes for _ in operator.mutation_positions(node))
        for occurrence in range(count):
            mutant = cosmic_ray.mutating.mutate_code(code, operator, occurrence)
            if mutant is None:
                continue
            try:
                if _meaning(mutant) != original:
                    found[mutant] = None
            except SyntaxError:
                pass
    return list(found)


def _meaning(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *(default for default in node.kw_defaults if default)]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
    return ast.dump(tree)


def _operators() -> Iterator[Operator]:
    yield AllForAny()
    yield StatementLeftOut()
    left_out = ("BitOr", "VariableReplacer", "VariableInserter", "_Eq_Is", "_NotEq_IsNot")
    for name in cosmic_ray.plugins.operator_names():
        if not any(part in name for part in left_out):
            yield cosmic_ray.plugins.get_operator(name)()


def is_noticed(tree: Path, tests: tuple[str, ...], seconds: float, *, show: bool = False) -> bool:
    """Whether a test fails, in a process of its own, or is not through in time."""
    files = tree.parent / "files"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            os.chdir(tree)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0,) if show else (0, 1, 2):
                os.dup2(null, stream)
            sys.path[:0] = [str(tree / "src"), str(tree)]
            os.environ["PYTHONPATH"] = str(tree / "src")  # for the servers that tests start
            hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
            hypothesis.settings.load_profile("mutants")
            quiet = ("-x", "-q", "-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning")
            code = int(pytest.main([*quiet, f"--basetemp={files}", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    status = _wait(child, seconds)
    clear(files)
    return status != 0


def _wait(child: int, seconds: float) -> int | None:
    """Its status, or None where it had to be ended: at first so that the tests can clear up."""
    for how, limit in ((signal.SIGINT, seconds), (signal.SIGKILL, GRACE_SECONDS)):
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return None if how == signal.SIGKILL else status
            time.sleep(0.02)
        os.killpg(child, how)
    os.waitpid(child, 0)
    return None


def clear(folder: Path) -> None:
    """A test that was ended by force may have left a disk mounted, which would get in the way of all that come after it."""
    try:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except FileNotFoundError:  # not Linux
        mounts = []
    for mount in mounts:
        if Path(mount).is_relative_to(folder):
            subprocess.run(["umount", "-l", mount], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def changed_line(code: str, mutant: str) -> tuple[str, str]:
    """What stood there, and what stands there now. For a line that is gone, the next one tells which it was."""
    before, after = code.split("\n"), mutant.split("\n")
    old: list[str] = []
    new: list[str] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            old += before[start : end if tag == "replace" else end + 1]
            new += after[new_start:new_end]
    return " ".join(" ".join(old).split()), " ".join(" ".join(new).split())


def equivalents(name: str, tree: Path) -> set[tuple[str, str]]:
    listed = tomllib.loads((tree / EQUIVALENT).read_text())["mutant"]
    return {(one["from"], one["to"]) for one in listed if one["file"] == name}


def try_file(name: str, tree: Path, count: int, draw: random.Random) -> float:
    target = tree / "src" / "understudy" / name
    code = target.read_text()
    every = mutants_of(code)
    order = draw.sample(every, len(every))
    same = equivalents(name, tree)
    for old, new in same - {changed_line(code, mutant) for mutant in every}:
        print(f"{name}: no longer a mutant, and still in {EQUIVALENT}: {old} -> {new}", flush=True)
    chosen = [mutant for mutant in order if changed_line(code, mutant) not in same][:count]
    began = time.monotonic()
    steps = FILES[name].steps()
    limits: list[float] = []
    for tests in steps:
        since = time.monotonic()
        if is_noticed(tree, tests, 3600, show=True):
            raise SystemExit(f"{name}: its tests fail without any change: {' '.join(tests)}")
        limits.append((time.monotonic() - since) * SLOWER + SOME_SECONDS)
    noticed = 0
    for number, mutant in enumerate(chosen, start=1):
        target.write_text(mutant)
        if any(is_noticed(tree, tests, seconds) for tests, seconds in zip(steps, limits, strict=True)):
            noticed += 1
        else:
            print(f"{name} {number}: not noticed: {' -> '.join(changed_line(code, mutant))}", flush=True)
        if number % BETWEEN_CONTROLS == 0:
            target.write_text(code)
            if is_noticed(tree, steps[0], limits[0]):
                raise SystemExit(f"{name}: its tests failed without any change, after mutant {number}")
    target.write_text(code)
    share = noticed / len(chosen)
    drawn = f"drawn from {len(every)}, {len(same)} of them equivalent; {time.monotonic() - began:.0f} s"
    print(f"{name}: {noticed} of {len(chosen)} noticed ({share:.0%}), {drawn}", flush=True)
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
    os.nice(5)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ.setdefault("UNDERSTUDY_TEST_WAIT", WAIT_SECONDS)
    sys.dont_write_bytecode = True
    shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mutants-", dir="/var/tmp") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
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
