"""One thing that `doctor` found."""

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["ok", "info", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong says in its text or details what to do about it."""

    section: str
    name: str
    level: Level
    text: str
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"section": self.section, "name": self.name, "level": self.level, "text": self.text}
        return {**told, "details": list(self.details)} if self.details else told
