"""The notice that a request is put to the model again, taken apart for the wires that have a shape of their own for it."""

import re
from typing import NamedTuple

_RETRY = re.compile(r"stream error: (?P<why>.*); retrying (?P<count>\d+/\d+) in [^;]*", re.DOTALL)
_STATUS = re.compile(r"(?:HTTP|unexpected status|last status:) (\d{3})\b")


class Retry(NamedTuple):
    message: str
    why: str
    status: int | None  # of HTTP, if that is why


def read_retry(notice: str) -> Retry | None:
    """None where the notice says something else."""
    found = _RETRY.fullmatch(notice)
    return None if found is None else Retry(f"Reconnecting... {found['count']}", found["why"], status_in(found["why"]))


def status_in(failure: str) -> int | None:
    found = _STATUS.search(failure)
    return None if found is None else int(found[1])
