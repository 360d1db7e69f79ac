"""Commands and skills on disk as MCP prompts: their list, and the text that each one makes."""

import asyncio
import os
from typing import Any

import msgspec

from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.engine.engine import Engine
from understudy.engine.setup.called import find_called, find_one, has_called, spell_out
from understudy.errors import BadRequest, ConfigError
from understudy.places.resolving import is_within
from understudy.protocol.callers import Caller
from understudy.protocol.records import Overrides
from understudy.servers.arguments import did_you_mean
from understudy.servers.failures import InvalidParams

WORDS = "arguments"  # everything after a command's name is one argument
_MOST_WORDS = 64 * 1024


class _Asked(msgspec.Struct):
    name: str
    arguments: dict[str, str] | None = None


async def list_prompts(engine: Engine, caller: Caller) -> dict[str, Any]:
    """Those of the server's starting folder and the user's own. Others are served while the files are read."""
    config = _config(engine, caller)
    if config is None:
        return {"prompts": []}
    words = {"name": WORDS, "required": False}
    return {
        "prompts": [
            {
                "name": each.name,
                "description": each.description,
                "arguments": [{**words, "description": each.hint or "what follows the name"}],
            }
            for each in await asyncio.to_thread(find_called, config, places_of(config))
        ]
    }


async def get_prompt(engine: Engine, caller: Caller, given: bytes) -> dict[str, Any]:
    """Raises `InvalidParams`."""
    try:
        asked = msgspec.json.decode(given, type=_Asked)
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of prompts/get: {error}") from None
    arguments = asked.arguments or {}
    if unknown := [name for name in arguments if name != WORDS]:
        raise InvalidParams(f"Invalid params of prompts/get: there is no argument {unknown[0]!r}; the only one is `{WORDS}`")
    words = arguments.get(WORDS, "")
    if len(words) > _MOST_WORDS:
        raise InvalidParams(f"Invalid params of prompts/get: `{WORDS}` is longer than {_MOST_WORDS} characters")
    config = _config(engine, caller)
    places = None if config is None else places_of(config)
    if config is None or places is None:
        raise InvalidParams(f"Unknown prompt '{asked.name[:200]}'")
    called = await asyncio.to_thread(find_one, asked.name, config, places)
    if called is None:
        known = [each.name for each in await asyncio.to_thread(find_called, config, places)]
        raise InvalidParams(f"Unknown prompt '{asked.name[:200]}'{did_you_mean(asked.name, known)}")
    try:
        text = await asyncio.to_thread(spell_out, called, words, config, places)
    except BadRequest as error:
        raise InvalidParams(str(error)) from None
    return {"description": called.description, "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def _config(engine: Engine, caller: Caller) -> Config | None:
    """None if the caller may not work here, or if there are no such files."""
    if "run" not in caller.rights:
        return None
    try:
        config = engine.configure(Overrides(model="none"))
    except ConfigError as error:
        raise InvalidParams(str(error)) from None
    limits = caller.limits
    if limits is not None and limits.roots is not None:
        cwd = places_of(config).pinned[0].path
        if not any(is_within(cwd, os.path.realpath(root)) for root in limits.roots):
            return None
    return config if has_called(config) else None
