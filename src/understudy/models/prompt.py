"""What a model is asked: instructions, history and tools; and how the user wants it asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from understudy.protocol.items import Item


class ToolSpec(msgspec.Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]  # JSON schema
    strict: bool = False
    grammar: str | None = None  # Lark, for models that write the tool's only argument (`input`) as free text after it


class Prompt(msgspec.Struct, frozen=True):
    instructions: str
    items: Sequence[Item]
    tools: Sequence[ToolSpec]
    conversation_id: str
    request_index: int | None = None  # requests this conversation has made before; only the scripted model wants to know
    may_call: bool = True  # False: an answer in words is wanted
    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    may_retry: bool = True  # False: there is something to fall back on, so a request that fails is not put again


class ModelSettings(msgspec.Struct, frozen=True):
    model: str
    reasoning_effort: str | None = None
    effort_is_chosen: bool = False  # by the user: a model that nobody here knows is asked for it, too
    reasoning_summary: str | None = None
    supports_reasoning_summaries: bool | None = None  # None: by the model's name
    verbosity: str | None = None
    store: bool = False  # whether the provider may keep the response
    originator: str = "understudy"
    show_raw: bool = False  # pass raw reasoning on as it arrives
    script: Path | None = None  # what the scripted model plays, instead of the one it has
    record: Path | None = None  # where every exchange is written to
    replay: Path | None = None  # the recording that is played
    roots: tuple[str, ...] = ()  # where commands may write, for a recording that lies there
    places: Mapping[str, str] = {}  # folders that differ from run to run, by what they are for; a recording names them
