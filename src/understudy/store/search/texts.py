"""The text of a record that can be searched for: what was said and what was run."""

import shlex
from collections.abc import Mapping

import msgspec

from understudy.protocol.choices import SearchRole
from understudy.protocol.items import Message
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    InputWritten,
    ItemReceived,
    Opened,
    PatchStarted,
    Record,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    UserMessage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

MOST_CHARACTERS = 65_536  # of one record; a longer text keeps its beginning and end


def text_of(record: Record) -> tuple[SearchRole, str] | None:
    """None if there is nothing to search. Reasoning is left out, because not everybody who may search may read it."""
    role, text = _text_of(record)
    return None if role is None or not text.strip() else (role, text)


def shortened(text: str) -> str:
    """The part of the text that is indexed."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


def folder_of(record: Record) -> str | None:
    """The folder where the conversation works from this record on, if it says so."""
    match record:
        case Opened(overrides=overrides) | UserMessage(overrides=overrides) if overrides is not None:
            return overrides.cwd
        case _:
            return None


def _text_of(record: Record) -> tuple[SearchRole | None, str]:
    match record:
        case UserMessage(message=message):
            return "user", message.text()
        case ItemReceived(item=Message() as message):
            return "assistant", message.text()
        case TurnEnded(unfinished=str() as unfinished):
            return "assistant", unfinished
        case CommandStarted(command=command):
            return "command", shlex.join(command)
        case CommandEnded(stdout=stdout, stderr=stderr):
            return "command", f"{stdout}\n{stderr}" if stderr else stdout
        case InputWritten(text=text):
            return "command", text
        case PatchStarted(changes=changes):
            return "patch", _changed(changes)
        case ToolCallBegan(tool=tool, arguments=arguments):
            return "tool", f"{tool} {_encoded(arguments)}"
        case ToolCallEnded():
            return "tool", record.describe()
        case _:
            return None, ""


def _encoded(arguments: Mapping[str, object] | None) -> str:
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def _changed(changes: Mapping[str, FileChange]) -> str:
    return "\n".join(f"{path}\n{_change(change)}" for path, change in changes.items())


def _change(change: FileChange) -> str:
    match change:
        case AddFile(content=content) | DeleteFile(content=content):
            return content
        case UpdateFile(unified_diff=diff, move_path=moved):
            return f"{moved}\n{diff}" if moved else diff
