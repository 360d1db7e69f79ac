"""What `make mutants` names is there: the lines of the changes that it leaves out, the files it changes and their tests."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_change_that_is_left_out_is_one_to_a_line_of_its_file() -> None:
    listed = tomllib.loads((ROOT / "scripts" / "equivalent_mutants.toml").read_text())["mutant"]
    gone: list[str] = []
    for one in listed:
        file = ROOT / "src" / "understudy" / one["file"]
        if not file.is_file() or one["from"] not in " ".join(file.read_text().split()):
            gone.append(f"{one['file']}: {one['from']}")
    assert gone == []


def test_every_file_that_is_changed_and_every_test_that_is_named_for_one_is_there() -> None:
    script = (ROOT / "scripts" / "mutants.py").read_text()
    names = re.findall(r'^ +"([a-z_/]+\.py)"[:,]', script, re.MULTILINE)
    tests = re.findall(r'"(tests/[a-z_/]+\.py)"', script)
    assert min(len(names), len(tests)) > 20
    files = [*tests, *(f"src/understudy/{name}" for name in names if not name.startswith("tests/"))]
    assert [name for name in files if not (ROOT / name).is_file()] == []
