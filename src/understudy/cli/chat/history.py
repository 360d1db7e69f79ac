"""What was typed before, kept for the next time: in a file that only its owner can read, without what looks like a secret."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from understudy.policy.secrets import secret_pattern

MOST_KEPT = 1000  # messages
LONGEST = 20_000  # characters of one
MOST_BYTES = 4 << 20


class ChatHistory(History):
    """A file that cannot be read or written is no reason to be without a chat: then nothing is kept."""

    def __init__(self, file: Path | None, secrets: Iterable[str]) -> None:
        """`file`: None where nothing is to be kept."""
        super().__init__()
        self._file = file
        self._secret = secret_pattern(secrets)

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = self._read()
        texts: list[str] = []
        for line in reversed(lines):
            try:
                texts.append(msgspec.json.decode(line, type=str))
            except msgspec.MsgspecError:
                continue  # cut off by a crash, or not ours
        if len(lines) > 2 * MOST_KEPT:
            self._write(list(reversed(texts[:MOST_KEPT])))
        return list(dict.fromkeys(texts))[:MOST_KEPT]

    def store_string(self, string: str) -> None:
        if self._file is None or len(string) > LONGEST or self._secret.search(string) or string[:1].isspace():
            return
        string = string.encode("utf-8", "replace").decode()
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self._file, flags, 0o600), "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(msgspec.json.encode(string) + b"\n")
        except OSError:
            return

    def _read(self) -> list[bytes]:
        if self._file is None:
            return []
        try:
            with open(os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - MOST_BYTES))
                return file.read(MOST_BYTES).splitlines()
        except OSError:
            return []

    def _write(self, texts: list[str]) -> None:
        assert self._file is not None
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
                file.writelines(msgspec.json.encode(text) + b"\n" for text in texts)
            os.replace(fresh, self._file)
        except OSError:
            return
