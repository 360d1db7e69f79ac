"""What a person at a terminal may answer to a question, and how they are asked."""

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
