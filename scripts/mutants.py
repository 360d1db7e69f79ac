"""`make mutants`: changes one spot of a file at a time, and tells how many of the changes the fast tests of its folder notice.

The mutants are cosmic-ray's, and two kinds of our own (`all` for `any`, and a statement left out). Which are tried is drawn with
a seed that is printed; those that `equivalent_mutants.toml` names, because nothing can tell them from the original, are left out.
Those that no test notices are printed as diffs.

Each is tried in a copy of the tree, by a fork of a process that has the libraries loaded: with the tests about the file first, and
only if those pass with the other fast tests of the folder. What takes several times as long as without the change counts as
noticed. Now and then the unchanged file is tried in between: if its tests fail, the run is worth nothing. One process, at low
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
OPTIONS = ("frozen", "kw_only", "gc", "eq")  # of structs: the type checker notices a change to them, or only a clock does
EQUIVALENT = "scripts/equivalent_mutants.toml"
COPIED = ("src", "tests", "docs", "scripts", "benchmarks", "pyproject.toml", "Makefile", "uv.lock")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


class Tests(NamedTuple):
    nearest: tuple[str, ...]  # about the file itself
    folder: str

    def steps(self) -> tuple[tuple[str, ...], ...]:
        return self.nearest, (self.folder, *(f"--ignore={name}" for name in self.nearest))


NAMED = {  # where a file's tests are not those of its name, or those that import it
    "policy/harmless.py": ("tests/policy/test_harmless.py", "tests/policy/test_threats.py"),
    "engine/log/fold.py": (
        "tests/engine/test_fold_values.py",
        "tests/engine/test_fold_records.py",
        "tests/engine/log/test_fold.py",
    ),
    "engine/log/tail.py": ("tests/engine/test_tail_values.py", "tests/engine/log/test_tail.py"),
    "engine/log/broadcast.py": ("tests/engine/test_tail_values.py", "tests/engine/log/test_tail.py"),
    "engine/conversation/conversation.py": (
        "tests/engine/test_conversation_values.py",
        "tests/engine/log/test_durable.py",
        "tests/engine/viewers/test_following.py",
        "tests/engine/test_engine.py",
        "tests/engine/conversation/test_conversation.py",
        "tests/engine/test_handle.py",
        "tests/engine/turn/test_long_commands.py",
        "tests/engine/services/test_turns_at_work.py",
    ),
    "engine/handle.py": ("tests/engine/test_handle.py", "tests/engine/test_callers.py", "tests/engine/log/test_durable.py"),
    "engine/log/unfinished_text.py": ("tests/engine/log/test_text_so_far.py", "tests/engine/log/test_shown_text.py"),
    "places/walking.py": ("tests/places/test_walking_values.py", "tests/places/test_walking.py"),
    "places/reading.py": ("tests/places/test_reading_values.py", "tests/places/test_reading.py"),
    "places/places.py": ("tests/places/test_places_values.py", "tests/places/test_pins.py", "tests/places/test_reading.py"),
    "tools/patch/plan.py": (
        "tests/tools/patch/test_plan.py",
        "tests/tools/patch/test_replacing.py",
        "tests/tools/patch/test_limits.py",
    ),
    "store/sqlite/writing.py": ("tests/store/sqlite/test_writing.py", "tests/store/test_append.py"),
    "servers/mcp/call.py": (
        "tests/servers/test_call.py",
        "tests/servers/test_caller_checks.py",
        "tests/servers/test_caller_limits.py",
        "tests/servers/test_calls.py",
        "tests/servers/test_watching_calls.py",
        "tests/servers/test_refusals.py",
    ),
}
USUAL = (  # without any names
    "policy/words.py",
    "policy/harmless.py",
    "tools/patch/plan.py",
    "engine/log/fold.py",
    "engine/log/tail.py",
    "engine/log/broadcast.py",
    "engine/log/unfinished_text.py",
    "engine/conversation/conversation.py",
    "engine/viewers/following.py",
    "engine/handle.py",
    "engine/services/retention.py",
    "places/places.py",
    "places/walking.py",
    "places/reading.py",
    "store/sqlite/writing.py",
    "servers/mcp/call.py",
    "servers/http/heads.py",
    "servers/mcp_http/at_once.py",
    "config/private_file.py",
)


def tests_of(name: str) -> Tests:
    """Those that are named for it; else the one of its name, or all that import it, below the folder of tests of its layer."""
    layer = Path("tests") / Path(name).parts[0]
    if name in NAMED:
        return Tests(NAMED[name], str(layer))
    stem = Path(name).stem
    imported = f"understudy.{name.removesuffix('.py').replace('/', '.')}"
    all_tests = sorted((ROOT / layer).rglob("test_*.py"))
    same_name = [path for path in all_tests if path.stem in (f"test_{stem}", f"test_{stem}_values")]
    found = same_name or [path for path in all_tests if imported in path.read_text()]
    if not found:
        raise SystemExit(f"{name}: no test below {layer} is called test_{stem}.py or imports it. Write one first")
    return Tests(tuple(str(path.relative_to(ROOT)) for path in found), str(layer))


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


def mutants_of(code: str, draw: random.Random) -> Iterator[str]:
    """Every change that gives another program, in an order that is drawn. Each is made only when it is asked for: it takes a while.
    Unions in annotations are left alone: any change there fails at once. So are `is` for `==`, which is the same for small
    numbers and for classes, `/` for `*` among parameters, which is the same for our calls, and what is imported for the type
    checker alone."""
    nodes = list(cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast(code)))
    places = [
        (operator, occurrence)
        for operator in _operators()
        for occurrence in range(sum(1 for node in nodes for _ in operator.mutation_positions(node)))
    ]
    seen = {_meaning(code)}
    for operator, occurrence in draw.sample(places, len(places)):
        mutant = cosmic_ray.mutating.mutate_code(code, operator, occurrence)
        try:
            meaning = "" if mutant is None else _meaning(mutant)
        except SyntaxError:
            continue
        if mutant is not None and meaning not in seen:
            seen.add(meaning)
            yield mutant


def _meaning(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.keywords = [option for option in node.keywords if option.arg not in OPTIONS]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.test = ast.Constant(value=False)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type":
            same = {ast.Eq: ast.Is, ast.NotEq: ast.IsNot}
            node.ops = [same.get(type(operator), type(operator))() for operator in node.ops]
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
            # What does not change is compiled once. A mutant's own code never is kept.
            sys.dont_write_bytecode = not show
            os.environ["PYTHONDONTWRITEBYTECODE"] = "" if show else "1"
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


def as_diff(name: str, code: str, mutant: str) -> str:
    lines = difflib.unified_diff(code.splitlines(), mutant.splitlines(), name, "mutant", lineterm="", n=1)
    return "\n".join(f"    {line}" for line in list(lines)[2:])


def equivalents(name: str, tree: Path) -> set[tuple[str, str]]:
    """`to` is one change, or a list of them that share the reason."""
    listed = tomllib.loads((tree / EQUIVALENT).read_text())["mutant"]
    mine = [(one["from"], one["to"]) for one in listed if one["file"] == name]
    return {(old, new) for old, changes in mine for new in ([changes] if isinstance(changes, str) else changes)}


def try_file(name: str, tree: Path, count: int, draw: random.Random, *, nearest_only: bool) -> float:
    target = tree / "src" / "understudy" / name
    code = target.read_text()
    same = equivalents(name, tree)
    lines = " ".join(code.split())
    for old in sorted({old for old, _ in same if old not in lines}):
        print(f"{name}: no longer in the code, and still in {EQUIVALENT}: {old}", flush=True)
    left_out: list[str] = []
    chosen: list[str] = []
    for mutant in mutants_of(code, draw):
        (left_out if changed_line(code, mutant) in same else chosen).append(mutant)
        if len(chosen) == count:
            break
    began = time.monotonic()
    steps = tests_of(name).steps()[: 1 if nearest_only else 2]
    print(f"{name}: {len(chosen)} mutants, tried with {' '.join(steps[0])}", flush=True)
    limits: list[float] = []
    for tests in steps:
        since = time.monotonic()
        if is_noticed(tree, tests, 3600, show=True):
            raise SystemExit(f"{name}: its tests fail without any change: {' '.join(tests)}")
        limits.append((time.monotonic() - since) * SLOWER + SOME_SECONDS)
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        compiled.unlink()  # a mutant of the same length and second would be taken for it
    noticed = 0
    for number, mutant in enumerate(chosen, start=1):
        target.write_text(mutant)
        if any(is_noticed(tree, tests, seconds) for tests, seconds in zip(steps, limits, strict=True)):
            noticed += 1
        else:
            print(f"{name} {number}: not noticed:\n{as_diff(name, code, mutant)}", flush=True)
        if number % BETWEEN_CONTROLS == 0:
            target.write_text(code)
            if is_noticed(tree, steps[0], limits[0]):
                raise SystemExit(f"{name}: its tests failed without any change, after mutant {number}")
    target.write_text(code)
    share = noticed / len(chosen)
    drawn = f"{len(left_out)} equivalent ones left out; {time.monotonic() - began:.0f} s"
    print(f"{name}: {noticed} of {len(chosen)} noticed ({share:.0%}), {len(chosen) - noticed} not; {drawn}", flush=True)
    return share


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help=f"of src/understudy, like policy/words.py; without any: {' '.join(USUAL)}")
    parser.add_argument("--count", type=int, default=100, help="mutants per file")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to draw the same mutants again")
    parser.add_argument("--nearest", action="store_true", help="try only the tests about the file: quicker, and notices less")
    options = parser.parse_args()
    files = [name.removeprefix("src/understudy/") for name in options.files] or list(USUAL)
    for name in files:
        if not (ROOT / "src" / "understudy" / name).is_file():
            parser.error(f"there is no src/understudy/{name}. Name a file like policy/words.py")
        tests_of(name)
    seed: int = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    os.nice(5)
    os.environ.setdefault("UNDERSTUDY_TEST_WAIT", WAIT_SECONDS)
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
        for name in files:
            draw = random.Random(f"{seed} {name}")
            shares.append(try_file(name, tree, options.count, draw, nearest_only=options.nearest))
    return 0 if min(shares) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
