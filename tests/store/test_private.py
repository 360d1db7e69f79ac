"""What is private to the store on SQLite: nobody else names it, its modules or its files."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "src" / "understudy"
OPEN = {"answered", "elsewhere", "locks", "log", "lookup", "memory", "opening", "place", "rollout", "transfer"} | {
    f"search.{name}" for name in ("asked", "moments", "words")
}
# Roles and the commands about stores are for a database, or for the move between one and a file.
MAY_NAME = {
    "engine/roles/worker.py": ("postgres.",),
    "engine/roles/front.py": ("postgres.",),
    "servers/serve/ended_for_all.py": ("postgres.",),
    "servers/serve/working.py": ("postgres.",),
    "cli/serving/workers.py": ("postgres.",),
    "cli/conversations/whole_store.py": ("postgres.", "moving.", "chain"),
}
FILES = ("conversations.db", "bell")


def _names(path: Path) -> Iterator[tuple[int, str]]:
    """Modules of the store that the file imports, the class, and the names of its files in texts."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("understudy.store."):
                if (name := module.removeprefix("understudy.store.")) not in OPEN:
                    yield node.lineno, name
            case ast.ImportFrom(module="understudy.store" | "understudy") | ast.Import():
                for alias in node.names:
                    if "store" in alias.name or alias.name in {"sqlite", "schema", "writing", "writer"}:
                        yield node.lineno, alias.name
            case ast.Name(id="SqliteLog") | ast.Attribute(attr="SqliteLog"):
                yield node.lineno, "SqliteLog"
            case ast.Constant(value=str(text)) if any(text.startswith(name) or text.endswith(f"/{name}") for name in FILES):
                yield node.lineno, text
            case _:
                pass


def test_nothing_outside_the_store_names_what_is_private_to_sqlite() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if "store" not in path.relative_to(PACKAGE).parts]
    assert len(files) > 100
    found = [(str(path.relative_to(PACKAGE)), line, name) for path in files for line, name in _names(path)]
    assert [each for each in found if not each[2].startswith(MAY_NAME.get(each[0], ()) or ("-",))] == []
    assert {each[0] for each in found} == set(MAY_NAME)


def test_the_check_sees_what_it_is_for() -> None:
    assert [name for _, name in _names(PACKAGE / "store" / "opening.py")] == ["sqlite.event_log", "postgres.log", "SqliteLog"]
