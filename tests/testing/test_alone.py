"""What others test with needs nothing that they did not ask for."""

import subprocess
import sys
from importlib.resources import files

PROGRAM = """
import sys
before = set(sys.modules)
import understudy.testing
print("\\n".join({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_it_is_imported_with_the_standard_library_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"understudy"}


def test_its_types_count_for_those_who_check_theirs() -> None:
    """Without the marker, pyright and mypy take everything that is imported for untyped."""
    assert files("understudy").joinpath("py.typed").is_file()
