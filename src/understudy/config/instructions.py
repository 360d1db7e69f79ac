"""The instructions a model gets when nobody gave others: the text of `instructions.md` beside this file."""

from functools import cache
from pathlib import Path


@cache
def default_instructions() -> str:
    return Path(__file__).with_name("instructions.md").read_text(encoding="utf-8").strip()
