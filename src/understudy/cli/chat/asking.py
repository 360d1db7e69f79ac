"""How a question is answered by one key: which keys there are, and from when on they count."""

from understudy.policy.user_input import one_line
from understudy.protocol.choices import Decision
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    InputQuestion,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)

PAUSE = 0.6  # seconds without a key before keys answer: whoever is typing must not approve by accident

KEYS: dict[str, Decision] = {"y": "approved", "s": "approved_for_session", "n": "denied", "q": "abort"}
MOST_KEYS = 9  # options that have one
_SHORT = {"y": "yes", "s": "always", "n": "no", "q": "abort", "v": "view"}


def input_menu(question: InputQuestion) -> list[tuple[str, str]]:
    """The keys for one thing that the model wants to know."""
    offered = [(str(number), one_line(option.label)) for number, option in enumerate(question.options[:MOST_KEYS], 1)]
    return [*offered, ("w", "in your own words"), ("n", "no answer"), ("q", "abort the turn")]


def menu(question: Question, width: int, *, folded: bool = False) -> list[tuple[str, str]]:
    """The keys with what they do. `folded`: not all that is asked about could be shown at once."""
    match question:
        case UserInputAsked(questions=questions):
            return input_menu(questions[0])
        case BudgetAsked():
            rows = [("y", "yes, raise it"), ("n", "no, stop here"), ("q", "abort the turn")]
        case HookApprovalAsked():
            rows = [("y", "yes, once"), ("n", "no, and say why"), ("q", "abort the turn")]
        case PatchApprovalAsked():
            rows = [("y", "yes, apply it"), ("n", "no, and say why"), ("q", "abort the turn")]
        case CommandApprovalAsked(key=key) | ToolApprovalAsked(key=key):
            again = [("s", "yes, for the session")] if key is not None else []
            rows = [("y", "yes, once"), *again, ("n", "no, and say why"), ("q", "abort the turn")]
    if folded:
        rows.insert(0, ("v", "view all of it"))
    if width < sum(len(about) + 6 for _, about in rows):
        rows = [(key, _SHORT[key]) for key, _ in rows]
    return rows


def decision_of(key: str, question: Question) -> Decision | None:
    """None for a key that means nothing here."""
    return KEYS[key] if any(key == offered for offered, _ in menu(question, 0)) else None
