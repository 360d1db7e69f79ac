"""What a person at a terminal may answer to a question, and how they are asked."""

import sys

from understudy.policy.visible import make_visible
from understudy.protocol.choices import Decision

_PROMPT = "  [y]es, yes for the [s]ession, [n]o, [q]uit the turn? "
_SHORT_PROMPT = "  [y]es, [s]ession, [n]o, [q]uit? "
HINT = "  Please answer y, s, n or q."

_WORDS: dict[Decision, tuple[str, ...]] = {
    "approved": ("y", "yes", "a", "approve", "approved"),
    "approved_for_session": ("s", "session", "yes for the session", "approve for the session"),
    "denied": ("n", "no", "d", "deny", "denied"),
    "abort": ("q", "quit", "abort"),
}
_DECISIONS: dict[str, Decision] = {word: decision for decision, words in _WORDS.items() for word in words}


def prompt(width: int) -> str:
    """One that leaves room for the answer in the same row."""
    return _PROMPT if len(_PROMPT) + 4 <= width else _SHORT_PROMPT


def read_answer(typed: str) -> Decision | None:
    """Whole words only: “absolutely not” is not an `a`."""
    return _DECISIONS.get(" ".join(typed.lower().split()).strip(".!"))


def say_that_it_waits(call_id: str) -> None:
    """Nobody here can be asked, and the configuration has questions wait."""
    sys.stderr.write(f"understudy: a question waits for an answer: understudy approvals answer {make_visible(call_id)} yes|no\n")
    sys.stderr.flush()
