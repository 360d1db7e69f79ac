"""The survey of our own code (`scripts/house.py`): it counts what is there, in any package."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import understudy
from understudy.engine.ops.table import OPS
from understudy.tools.registry import TOOLS

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "house.py"
MOST_REACHES = 20  # into the parts of a conversation, from other files


def _house() -> Any:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def surveyed(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_circles_reaches_and_inner_imports_of_a_small_package_are_counted(tmp_path: Path) -> None:
    package = tmp_path / "small"
    files = {
        "__init__.py": "",
        "engine/__init__.py": "",
        "engine/conversation/conversation.py": "class Conversation:\n    def __init__(self) -> None:\n"
        "        self.tail = 1\n        self._own = 2\n",
        "engine/sending.py": "from small.engine.conversation.conversation import Conversation\n\n\n"
        "def send(conversation: Conversation) -> int:\n    import json\n    from small import late\n\n    conversation._own\n"
        "    return conversation.tail + len(json.dumps(late))\n",
        "late.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from .engine import sending\n",
        "alone.py": "import json\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    counts = surveyed(str(package))
    assert counts["files"] == 6
    assert counts["circles of imports, all counted"] == [["engine.sending", "late"]]
    assert counts["reached into a conversation"] == {"places": 1, "files": 1, "most": {"engine/sending.py": 1}}
    assert counts["imports inside functions"] == {"ours": 1, "standard": 1, "all": 2}
    assert counts["imports for types only"] == 1


@pytest.mark.slow
def test_our_own_package_is_surveyed() -> None:
    counts = surveyed()
    assert counts["files"] > 100
    assert counts["functions"] > 1000
    assert counts["circles of imports, all counted"] == []
    assert counts["reached into a conversation"]["places"] < MOST_REACHES


@pytest.mark.slow
def test_what_the_tables_of_ops_and_tools_name_is_counted_as_imported() -> None:
    """It is read by name, when the first of its kind comes: a circle through it would be one all the same."""
    house, package = _house(), Path(understudy.__file__).parent
    modules = house.read(package)
    edges = house.graph(modules, package.name)
    edges["engine.ops.table"] |= {f"engine.ops.{row.file}" for row in OPS.values()}
    edges["tools.registry"] |= {entry.module.removeprefix("understudy.") for entry in TOOLS}
    files = {Path(module.file).stem for module in modules.values() if module.file.startswith("engine/ops/")} - {"__init__", "table"}
    assert files == {row.file for row in OPS.values()}, "an op is one file and one row"
    assert house.circles(edges) == []


def test_what_is_no_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "none")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "is no folder" in done.stderr
    assert "Traceback" not in done.stderr
