"""What others test with needs nothing that they did not ask for."""

import subprocess
import sys

PROGRAM = """
import sys
before = set(sys.modules)
import understudy.testing
print("\\n".join({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_it_is_imported_with_the_standard_library_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"understudy"}
