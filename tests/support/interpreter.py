"""A Python for commands inside the sandbox.

The one that runs the tests may be in an environment below /tmp, which a contained command sees as a folder of its own.
"""

import os
import sys

import pytest

PLAIN_PYTHON = os.path.realpath(sys.executable)  # what the environment's interpreter is a link to

needs_packages_inside = pytest.mark.skipif(
    sys.prefix.startswith(("/tmp/", "/dev/shm/")), reason="the environment's packages are below /tmp, hidden inside the sandbox"
)
