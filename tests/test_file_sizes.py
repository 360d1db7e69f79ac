"""Files do one thing and folders are rooms: a file that grows beyond this does a second one, and a fuller folder is two."""

from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "understudy"
MOST_LINES = 450
MOST_FILES = 25


def test_no_file_has_more_than_450_lines() -> None:
    lines = {str(path.relative_to(SOURCE)): path.read_text().count("\n") for path in SOURCE.rglob("*.py")}
    assert len(lines) > 100
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_folder_has_more_than_25_files() -> None:
    files = Counter(str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert len(files) > 20
    assert {name: count for name, count in files.items() if count > MOST_FILES} == {}


def test_every_room_says_what_stands_in_it() -> None:
    rooms = [path for path in SOURCE.rglob("__init__.py") if "suite" not in path.parts]
    assert len(rooms) > 20
    assert [str(path.relative_to(SOURCE)) for path in rooms if not path.read_text().startswith('"""')] == []
