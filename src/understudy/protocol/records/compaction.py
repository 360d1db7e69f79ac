"""What is left out of what the model is sent, to make room."""

from typing import Literal

import msgspec

from understudy.protocol.items import Usage


class CompactionStarted(msgspec.Struct, frozen=True, gc=False, tag="compaction_started"):
    """Intent: the model is asked for a summary. Where no `Compacted` follows, the history is as it was."""

    reason: Literal["limit", "full", "asked"]  # the provider counted that many tokens, refused any more, or somebody wants it
    tokens: int  # in use, by the provider's count or our estimate


class Shortened(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int  # the record that the item is from
    characters: int  # of its text that are still sent


class Compacted(msgspec.Struct, frozen=True, gc=False, tag="compacted", omit_defaults=True):
    """From here on the model is sent less of what was before. The records before it stay, and so does what they are shown as."""

    kind: Literal["summary", "trimmed"]  # trimmed: no model has summed up what is no longer sent
    tokens_before: int
    tokens_after: int  # an estimate
    summary: str = ""  # the model's own words
    note: str = ""  # what goes before them: why something is missing, the plan, running commands, changed files
    kept: tuple[int, ...] | None = None  # records whose items are still sent; None: all
    recent: int = 0  # the first of them that comes after note and summary; 0: none does
    shortened: tuple[Shortened, ...] = ()
    total: Usage | None = None  # of all answers of the conversation so far

    def describe(self) -> str:
        """For people, in a line."""
        trimmed = "old outputs are no longer sent" if self.kept is None else "the oldest part of it is no longer sent"
        how = "the model summed up what was before" if self.kind == "summary" else trimmed
        return f"context compacted: {how} ({self.tokens_before} tokens before, about {self.tokens_after} after)"
