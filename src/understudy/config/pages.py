"""Where the pages of docs/ lie in an install: the wheel brings them along (pyproject.toml, `shared-data`)."""

import os
import sys


def page_path(name: str, part: str = "") -> str:
    """For a text of ours that sends a person to a page, or to a part of it."""
    return os.path.join(sys.prefix, "share", "doc", "understudy", name) + (f"#{part}" if part else "")
