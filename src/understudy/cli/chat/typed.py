"""What was typed, as a message: long pastes put back in their places, images found by their paths."""

import os
import re
import shlex

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
LONG_PASTE_LINES = 12
LONG_PASTE = 2_000  # characters
_MARK = re.compile(r"\[paste (\d+): [^\]\n]*\]")
_NAMED = re.compile(r"(?:^|(?<=[\s(\"']))@(?:\"([^\"\n]+)\"|([^\s\"]+))")


class Pastes:
    """Texts that are too long to look at stand as one mark in the line that is being typed."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def take(self, text: str) -> str:
        """What is put into the line for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if (path := image_path(text)) is not None:
            return f'@"{path}" ' if re.search(r"\s", path) else f"@{path} "
        lines = text.count("\n") + 1
        if lines <= LONG_PASTE_LINES and len(text) <= LONG_PASTE:
            return text
        self._texts.append(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste {len(self._texts)}: {size}]"

    def put_back(self, line: str) -> str:
        def text(mark: re.Match[str]) -> str:
            number = int(mark[1]) if len(mark[1]) < 9 else 0
            return self._texts[number - 1] if 0 < number <= len(self._texts) else mark[0]

        return _MARK.sub(text, line)


def image_path(text: str) -> str | None:
    """The path of an image, as terminals paste it when a file is dropped on them: quoted, or with backslashes."""
    text = text.strip()
    if not text.lower().rstrip("'\"").endswith(IMAGES) or "\n" in text or len(text) > 4096:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    for path in (text, *words[:1]) if len(words) == 1 else (text,):
        path = path.removeprefix("file://")
        if os.path.isabs(path) and '"' not in path and os.path.isfile(path):
            return path
    return None


def named_images(text: str, cwd: str) -> list[str]:
    """Paths of the images that a message names by `@`."""
    paths: list[str] = []
    for found in _NAMED.finditer(text):
        name = found[1] or found[2].rstrip(".,;:!?)")
        path = os.path.join(cwd, os.path.expanduser(name))
        if name.lower().endswith(IMAGES) and os.path.isfile(path):
            paths.append(path)
    return list(dict.fromkeys(paths))
