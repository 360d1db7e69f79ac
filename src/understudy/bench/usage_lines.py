"""What other agents say of their tokens: JSON lines as `codex exec --json` and `opencode run --format json` print them."""

import json
from pathlib import Path
from typing import Any, cast

import msgspec

LONGEST_LINE = 4 * 2**20


class Used(msgspec.Struct, frozen=True):
    tokens: int | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None


def read_usage(path: Path) -> Used:
    """The sum over all turns; nothing where the program does not tell."""
    counts: dict[str, int] = {}
    cost: float | None = None
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            if not line.startswith(b"{") or b"okens" not in line:
                continue
            for name, count in _counts(_object(line)).items():
                counts[name] = counts.get(name, 0) + count
            paid = _number(_part(_object(line)).get("cost"))
            cost = cost if paid is None else (cost or 0.0) + paid
    if not counts:
        return Used(cost_usd=cost)
    return Used(counts.get("input_tokens", 0) + counts.get("output_tokens", 0), counts, cost)


def _counts(event: dict[str, Any]) -> dict[str, int]:
    match event:
        case {"type": "turn.completed", "usage": dict()}:
            return _whole(cast(dict[str, Any], event["usage"]))
        case {"type": "step_finish"} | {"type": "step-finish"}:
            tokens = cast(dict[str, Any], _part(event).get("tokens") or {})
            cache = cast(dict[str, Any], tokens.get("cache") or {})
            read = int(_number(cache.get("read")) or 0) + int(_number(cache.get("write")) or 0)
            return {
                "input_tokens": int(_number(tokens.get("input")) or 0) + read,
                "cached_input_tokens": int(_number(cache.get("read")) or 0),
                "output_tokens": int(_number(tokens.get("output")) or 0) + int(_number(tokens.get("reasoning")) or 0),
            }
        case _:
            return {}


def _part(event: dict[str, Any]) -> dict[str, Any]:
    part = event.get("part", event)
    return cast(dict[str, Any], part) if isinstance(part, dict) else {}


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _whole(usage: dict[str, Any]) -> dict[str, int]:
    return {name: int(count) for name, value in usage.items() if (count := _number(value)) is not None}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
