"""Our instructions for models: `instructions.md` beside this file, with the parts that fit the model and its tools.

A part between `{{if NAME}}`, perhaps `{{else}}`, and `{{end}}` counts where NAME is among the model's features: the name of a
tool that it is offered, or one of `TRAITS`. Parts do not nest.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

TRAITS = ("commentary", "parallel")  # of a family of models; see `models/families.py`


def instructions_for(features: Iterable[str]) -> str:
    """What a model gets when nobody gave it other instructions."""
    return _with_parts(frozenset(features) & conditions())


@cache
def conditions() -> frozenset[str]:
    """The features that the text asks about."""
    lines = _text().splitlines()
    return frozenset(line.removeprefix("{{if ").removesuffix("}}") for line in lines if line.startswith("{{if "))


@lru_cache(maxsize=16)
def _with_parts(features: frozenset[str]) -> str:
    counts = True
    kept: list[str] = []
    for line in _text().splitlines():
        if line.startswith("{{if "):
            counts = line.removeprefix("{{if ").removesuffix("}}") in features
        elif line == "{{else}}":
            counts = not counts
        elif line == "{{end}}":
            counts = True
        elif counts:
            kept.append(line)
    return "\n".join(kept)


@cache
def _text() -> str:
    return Path(__file__).with_name("instructions.md").read_text(encoding="utf-8").strip()
