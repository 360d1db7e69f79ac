"""The code blocks of the README and of every page under docs/."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = (*(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")), *sorted((ROOT / "docs").glob("*.md")))
UNTESTED = re.compile(r"<!-- untested: (.+) -->")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of its first line
    language: str
    text: str
    untested: str | None  # why it is not run, from the comment above it

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """Those in one of these languages, or all; without those that are marked as untested."""
    found = [block for block in all_blocks() if not languages or block.language in languages]
    return [block for block in found if block.untested is None]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in _blocks_of(page)]


def _blocks_of(page: Path) -> Iterator[Block]:
    language: str | None = None
    start, above, lines = 0, "", list[str]()
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if language is None and line.startswith("```"):
            language, start, lines = line[3:], number + 1, []
        elif line == "```" and language is not None:
            reason = UNTESTED.fullmatch(above)
            yield Block(page, start, language, "\n".join(lines) + "\n", reason[1] if reason else None)
            language = None
        elif language is not None:
            lines.append(line)
        elif line:
            above = line
    assert language is None, f"{page}: the block at line {start} has no end"
