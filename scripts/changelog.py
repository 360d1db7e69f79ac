"""Moves the fragments of `changelog.d` into the newest section of CHANGELOG.md, sorted by kind. Run by `make changelog`.

towncrier and scriv start a new section each time; ours can be read before its release, so fragments are merged into it.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("added", "changed", "fixed", "security")


def main() -> None:
    folder, page = ROOT / "changelog.d", ROOT / "CHANGELOG.md"
    fragments = read_fragments(folder)
    page.write_text(merged(page.read_text(), {kind: [text for _, text in found] for kind, found in fragments.items()}))
    for found in fragments.values():
        for path, _ in found:
            path.unlink()
    print(f"changelog: {sum(map(len, fragments.values()))} fragments moved into CHANGELOG.md")


def read_fragments(folder: Path) -> dict[str, list[tuple[Path, str]]]:
    """The fragments of each kind, by name. Exits with the name of a file that is not one."""
    found: dict[str, list[tuple[Path, str]]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        named = re.fullmatch(r"\+[a-z0-9-]+\.(\w+)\.md", path.name)
        text = " ".join(path.read_text().split())
        if named is None or named[1] not in KINDS or not text:
            sys.exit(f"changelog: {path.name} is not a fragment: see changelog.d/README.md")
        found[named[1]].append((path, text.removeprefix("- ")))
    return found


def merged(page: str, fragments: Mapping[str, Sequence[str]]) -> str:
    """The page with each text as the last bullet of its kind in the newest section."""
    before, newest, after = re.split(r"(^## .*?)(?=^## )", page, maxsplit=1, flags=re.MULTILINE | re.DOTALL)
    heading, *parts = re.split(r"^### (\w+)\n", newest, flags=re.MULTILINE | re.DOTALL)
    bullets = {name.lower(): text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    for kind, texts in fragments.items():
        lines = [bullets.get(kind, ""), *(f"- {text}" for text in texts)]
        bullets[kind] = "\n".join(line for line in lines if line)
    told = [f"### {kind.capitalize()}\n\n{bullets[kind]}\n" for kind in KINDS if bullets.get(kind)]
    return "".join([before, heading.rstrip(), "\n\n", "\n".join(told), "\n", after])


if __name__ == "__main__":
    main()
