"""The texts a model gets when nobody gave others: `instructions.md` and `compact_prompt.md` beside this file."""

from functools import cache
from pathlib import Path


@cache
def default_instructions() -> str:
    return _read("instructions.md")


@cache
def default_compact_prompt() -> str:
    """What a model is asked for when its context is full."""
    return _read("compact_prompt.md")


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()
