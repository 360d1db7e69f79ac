"""What every client under test is asked to do, and the server it does it with. Runs in the clients' own environments."""

import json
import sys
from typing import Any


def read_task() -> dict[str, Any]:
    """`command`, `args`, `env` and `cwd` of the server, as the test gave them."""
    return json.loads(sys.argv[1])


def tell(**seen: Any) -> None:
    """What the client saw, for the test to judge."""
    print(json.dumps(seen))
