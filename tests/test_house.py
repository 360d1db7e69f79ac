"""The survey of our own code (`scripts/house.py`): it counts what is there, in any package."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "house.py"


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
        "engine/conversation.py": "class Conversation:\n    def __init__(self) -> None:\n"
        "        self.tail = 1\n        self._own = 2\n",
        "engine/sending.py": "from small.engine.conversation import Conversation\n\n\n"
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


def test_our_own_package_is_surveyed() -> None:
    counts = surveyed()
    assert counts["files"] > 100
    assert counts["functions"] > 1000


def test_what_is_no_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "none")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "is no folder" in done.stderr
    assert "Traceback" not in done.stderr
