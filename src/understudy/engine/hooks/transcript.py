"""The conversation so far as files that hooks may read: lines of JSON in the form of their family, readable only by the user.

One copy is for hooks that run with the user's rights; no other hook can write there. Another is in the private folder of contained
hooks, which is their /tmp on most rungs. If such a hook puts something else in the file's place, it is neither waited for nor
written to.
"""

import asyncio
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.hooks.entries import Family, Hook
from understudy.engine.log.fold import State
from understudy.places.doer import Doer
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from understudy.sandbox.spec import Temporary

INSIDE = "tmp"  # in our folder: the private folder of contained hooks
_FEW = 64  # up to so many items are written at once; more are written beside the event loop
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_KNOWN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Transcript:
    """A file that grows with the conversation. After a summary it holds what the model still has."""

    def __init__(self, folder: Path, conversation_id: str) -> None:
        self._folder = folder
        self._conversation_id = conversation_id
        self._copies: dict[tuple[Family, Path], _Copy] = {}
        self._one_at_a_time = asyncio.Lock()

    def path_for(self, hook: Hook, private: Temporary | None) -> str | None:
        """`private`: the folder of a contained hook. None: the hook can reach no file that only hooks may write."""
        if private is not None and private.seen is None:
            return None
        family = hook.file.family
        name = f"transcript-{family}.jsonl"
        folder = self._folder if private is None else Path(private.folder)
        if (family, folder) not in self._copies:
            contained, ours = private is not None, folder in (self._folder, self._folder / INSIDE)
            copy = _Copy(folder / name, family, self._conversation_id, contained=contained, in_ours=ours)
            self._copies[family, folder] = copy
        return f"{folder if private is None else private.seen}/{name}"

    async def write(self, state: State, doer: Doer | None) -> None:
        """Write new items for the hooks that have asked for a transcript. `doer`: the user as whom contained hooks run.

        A full disk does not stop hooks: the file just ends early.
        """
        async with self._one_at_a_time:
            for copy in tuple(self._copies.values()):
                new = copy.missing(state.history.items, state.history.sources)
                if not new:
                    continue
                reader = doer if copy.contained else None
                with suppress(OSError):
                    if len(new) > _FEW:
                        await asyncio.to_thread(copy.add, new, reader)
                    else:
                        copy.add(new, reader)


class _Copy:
    def __init__(self, path: Path, family: Family, conversation_id: str, *, contained: bool, in_ours: bool) -> None:
        """`in_ours`: the folder is below our own, so nobody else can replace it."""
        self.contained = contained
        self._in_ours = in_ours
        self._path = path
        self._family: Family = family
        self._conversation_id = conversation_id
        self._items = 0  # items examined so far
        self._last = 0  # the record of the last examined item
        self._newest = 0  # the newest record that the file covers
        self._identity: tuple[int, int] | None = None

    def missing(self, items: Sequence[Item], sources: Sequence[int]) -> list[Item]:
        """Items that the file lacks. Only the end is examined, unless earlier items have been summarised."""
        if not self._stands():
            self._identity, self._items, self._newest = None, 0, 0
        goes_on = 0 < self._items <= len(sources) and sources[self._items - 1] == self._last
        at = self._items if goes_on else 0
        found = [items[index] for index in range(at, len(items)) if sources[index] > self._newest]
        self._items, self._last = len(items), sources[-1] if sources else 0
        self._newest = max(sources[at:], default=self._newest)
        return found

    def _stands(self) -> bool:
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity and found.st_nlink == 1

    def add(self, items: Sequence[Item], reader: Doer | None) -> None:
        """Raises OSError."""
        lines = b"".join(map(self._line, items))
        if reader is None or self._in_ours:
            self._write(lines, reader)
        else:
            reader.act(lambda: self._write(lines, None))

    def _write(self, lines: bytes, reader: Doer | None) -> None:
        descriptor = self._open(reader)
        with os.fdopen(descriptor, "wb") as file:
            file.write(lines)

    def _open(self, reader: Doer | None) -> int:
        if self._identity is not None:
            descriptor = os.open(self._path, _KNOWN)
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == self._identity and stat.S_ISREG(found.st_mode):
                return descriptor
            os.close(descriptor)  # the file was replaced a moment ago
        os.makedirs(self._path.parent, mode=0o700, exist_ok=True)
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, _NEW, 0o600)
        if reader is not None and reader.uid != os.geteuid():
            os.fchown(descriptor, reader.uid, reader.gid)
        found = os.fstat(descriptor)
        self._identity = found.st_dev, found.st_ino
        return descriptor

    def _line(self, item: Item) -> bytes:
        told = _for_claude(item) if self._family == "claude" else _for_codex(item)
        if told is None:
            return b""
        if self._family == "claude":
            told |= {"sessionId": self._conversation_id}
        return msgspec.json.encode(told) + b"\n"


def _for_codex(item: Item) -> dict[str, Any] | None:
    match item:
        case Message(role=role):
            kind = "output_text" if role == "assistant" else "input_text"
            payload = {"type": "message", "role": role, "content": [{"type": kind, "text": item.text()}]}
        case FunctionCall(call_id=call_id, name=name, arguments=arguments):
            payload = {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}
        case FunctionCallOutput(call_id=call_id, output=output):
            payload = {"type": "function_call_output", "call_id": call_id, "output": output}
        case Reasoning():
            return None
    return {"type": "response_item", "payload": payload}


def _for_claude(item: Item) -> dict[str, Any] | None:
    match item:
        case Message(role=role):
            who = "assistant" if role == "assistant" else "user"
            return {"type": who, "message": {"role": who, "content": [{"type": "text", "text": item.text()}]}}
        case FunctionCall(call_id=call_id, name=name, arguments=arguments):
            call = {"type": "tool_use", "id": call_id, "name": name, "input": _decoded(arguments)}
            return {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
        case FunctionCallOutput(call_id=call_id, output=output):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
            return {"type": "user", "message": {"role": "user", "content": [result]}}
        case Reasoning():
            return None


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
