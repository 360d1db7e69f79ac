"""How a skill wants to be shown: the table `interface` in its `agents/openai.yaml`, as codex has it. Pure."""

import os
import re
from collections.abc import Mapping

LONGEST = 1024  # characters of one value

_TABLE = re.compile(r"^interface:[ \t]*(?:#.*)?\r?\n((?:[ \t]+.*\r?\n|[ \t]*(?:#.*)?\r?\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]+([a-z_]+):[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'")
_TEXTS = ("display_name", "short_description", "brand_color", "default_prompt")
_ICONS = ("icon_small", "icon_large")


def interface_of(file: bytes, folder: str) -> tuple[tuple[str, str], ...]:
    """Names and values, without those that it does not have. `folder`: the skill's, in which its icons are."""
    table = _TABLE.search(file.decode("utf-8", "replace") + "\n")
    if table is None:
        return ()
    said = {found[1]: _plain(found[2])[:LONGEST] for found in _ENTRY.finditer(table[1])}
    texts = {name: said[name] for name in _TEXTS if said.get(name)}
    icons = {name: os.path.normpath(f"{folder}/{said[name]}") for name in _ICONS if said.get(name)}
    return (*texts.items(), *((name, path) for name, path in icons.items() if path.startswith(f"{folder}/")))


def _plain(value: str) -> str:
    if (quoted := _QUOTED.match(value)) is None:
        return re.sub(r"(?:^|[ \t])#.*", "", value).strip()
    return quoted[2].replace("''", "'") if quoted[1] is None else re.sub(r"\\([\"\\])", r"\1", quoted[1])


def shown_interface(interface: Mapping[str, str]) -> dict[str, str | None]:
    """As `skills/list` of codex has it."""
    names = {"displayName": "display_name", "shortDescription": "short_description", "iconSmall": "icon_small"}
    names |= {"iconLarge": "icon_large", "iconSmallUrl": "", "iconLargeUrl": "", "brandColor": "brand_color"}
    return {theirs: interface.get(ours) for theirs, ours in (*names.items(), ("defaultPrompt", "default_prompt"))}
