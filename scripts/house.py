"""A survey of our own code: `python scripts/house.py [--json] [--walk] [SOURCE]`.

It counts what tells whether a stranger can live here: how many files there are and how large, how full the folders are, which
modules import each other in a circle, how often other files reach into a conversation, and how many imports stand inside
functions. With `--walk` it also starts the real server and counts the files that one `codex` call passes (`scripts/trace_call.py`).

It only counts. Limits are held by tests; the figures are for whoever plans a change, before and after.
"""

import argparse
import ast
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "understudy"
SMALL_LINES = 60
LARGE_LINES = 400
FULL_FOLDER = 25
BAGS = {
    "engine/conversation/conversation.py": "Conversation",
    "engine/conversation/shell.py": "Shell",
}  # whose parts other files should leave alone
BAG_NAMES = ("conversation", "_conversation", "shell", "_shell")
NO_PART = "id"  # what it is called is nobody's secret
CIRCLES = "circles of imports, all counted"


class Module(NamedTuple):
    name: str  # dotted, below the package: "engine.turn"; a package has the name of its folder
    file: str
    tree: ast.Module
    lines: int


class Import(NamedTuple):
    """One statement. `from x import y` names `x` and, in case it is a module, `x.y`."""

    names: tuple[str, ...]
    in_function: bool
    for_types: bool


def read(source: Path) -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for path in sorted(source.rglob("*.py")):
        file = path.relative_to(source)
        parts = file.parent.parts if file.name == "__init__.py" else (*file.parent.parts, file.stem)
        text = path.read_text()
        name = ".".join(parts)
        modules[name] = Module(name, file.as_posix(), ast.parse(text), text.count("\n"))
    return modules


def imports(module: Module, package: str) -> list[Import]:
    """All of them, wherever they stand in the file."""
    place = [package, *module.name.split(".")] if module.name else [package]
    if not module.file.endswith("__init__.py"):
        place.pop()
    found: list[Import] = []

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> None:
        match node:
            case ast.Import(names=names):
                found.append(Import(tuple(alias.name for alias in names), in_function, for_types))
            case ast.ImportFrom(module=named, names=names, level=level):
                base = place[: len(place) - level + 1] if level else []
                start = ".".join([*base, *([named] if named else [])])
                found.append(Import((start, *(f"{start}.{alias.name}" for alias in names)), in_function, for_types))
            case _:
                inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                typing = for_types or (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))
                for child in ast.iter_child_nodes(node):
                    walk(child, inside, typing)

    walk(module.tree, False, False)
    return found


def whose(found: Import, package: str) -> str:
    first = found.names[0].split(".")[0]
    return "ours" if first == package else "standard" if first in sys.stdlib_module_names else "others"


def graph(modules: Mapping[str, Module], package: str) -> dict[str, set[str]]:
    """Which of our modules each one imports, at any time and for any reason."""
    known = {f"{package}.{name}": name for name in modules if name}
    edges: dict[str, set[str]] = {}
    for module in modules.values():
        named = {known[name] for found in imports(module, package) for name in found.names if name in known}
        # `from folder import module` also names the folder, which then depends on nothing that is meant
        leaves = {name for name in named if not any(other.startswith(f"{name}.") for other in named)}
        edges[module.name] = leaves - {module.name}
    return edges


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules of which each reaches each other (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


LIBRARY = ("library/", "sync.py")  # whose conversations are other ones


def reached_into(modules: Mapping[str, Module]) -> Counter[str]:
    """By file: how often it names a public attribute that a conversation, or the shell of it that ops know, sets for itself."""
    bags = [module for module in modules.values() if module.file in BAGS]
    theirs = {
        name for bag in bags for name in _set_attributes(bag.tree, BAGS[bag.file]) if not name.startswith("_") and name != NO_PART
    }
    counted: Counter[str] = Counter()
    for module in modules.values():
        if module.file in BAGS or module.file.startswith(LIBRARY):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in theirs and _last_name(node.value) in BAG_NAMES:
                counted[module.file] += 1
    return counted


def _set_attributes(tree: ast.Module, name: str) -> set[str]:
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        node.attr
        for found in classes
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _last_name(node.value) == "self"
    }


def _last_name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def functions(modules: Iterable[Module]) -> list[int]:
    """How many lines each function has."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def survey(source: Path) -> dict[str, Any]:
    package = source.name
    modules = read(source)
    if not modules:
        raise SystemExit(f"house: {source} has no Python files")
    lines = sorted(module.lines for module in modules.values())
    lengths = sorted(functions(modules.values()))
    folders = Counter(str(Path(module.file).parent) for module in modules.values() if not module.file.endswith("__init__.py"))
    found = [entry for module in modules.values() for entry in imports(module, package)]
    inner = Counter(whose(entry, package) for entry in found if entry.in_function)
    into = reached_into(modules)
    return {
        "files": len(modules),
        "lines": sum(lines),
        "lines of a file": {"median": statistics.median(lines), "most": lines[-1]},
        f"files of at most {SMALL_LINES} lines": sum(count <= SMALL_LINES for count in lines),
        f"files of more than {LARGE_LINES} lines": sum(count > LARGE_LINES for count in lines),
        "functions": len(lengths),
        "lines of a function": {"median": statistics.median(lengths), "p90": lengths[len(lengths) * 9 // 10], "most": lengths[-1]},
        f"folders of more than {FULL_FOLDER} files": {name: count for name, count in folders.most_common() if count > FULL_FOLDER},
        "imports inside functions": {**dict(sorted(inner.items())), "all": inner.total()},
        "imports for types only": sum(entry.for_types for entry in found),
        CIRCLES: circles(graph(modules, package)),
        "reached into a conversation": {"places": into.total(), "files": len(into), "most": dict(into.most_common(5))},
    }


def walked() -> str:
    """What the script that follows one call says at its end."""
    script = Path(__file__).with_name("trace_call.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"house: the walk failed: {done.stderr.strip()}")
    return done.stdout.strip().splitlines()[-1]


def told(counts: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for name in counts:
        if name == CIRCLES:
            found: list[list[str]] = counts[name]
            lines.append(f"{name}: {len(found) or 'none'}")
            lines += [f"  {len(circle)}: {', '.join(circle)}" for circle in found]
        elif isinstance(counts[name], dict):
            parts: dict[str, Any] = counts[name]
            lines.append(f"{name}: " + (", ".join(f"{key} {part}" for key, part in parts.items()) or "none"))
        else:
            lines.append(f"{name}: {counts[name]}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a survey of our own code")
    parser.add_argument("source", nargs="?", type=Path, default=SOURCE, help="the folder of another package")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--walk", action="store_true", help="also count what one codex call passes")
    given = parser.parse_args(arguments)
    if not given.source.is_dir():
        parser.error(f"{given.source} is no folder")
    counts = survey(given.source.resolve())
    if given.walk:
        counts["one codex call"] = walked()
    print(json.dumps(counts, indent=2) if given.json else told(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
