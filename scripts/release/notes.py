"""The version of the sources, and what CHANGELOG.md says about it."""

import re
import tomllib
from pathlib import Path

UNRELEASED = "not released yet"


def version_of(pyproject: Path) -> str:
    return str(tomllib.loads(pyproject.read_text())["project"]["version"])


def notes_for(version: str, changelog: str) -> tuple[str, str]:
    """The heading of a version, and what stands under it."""
    found = re.search(rf"^## ({re.escape(version)}(?![\w.])[^\n]*)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[2].strip():
        raise SystemExit(f"release: CHANGELOG.md has no notes for {version}")
    return found[1], f"# understudy {version}\n\n{found[2].strip()}\n"
