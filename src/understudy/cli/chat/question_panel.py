"""The open question: its keys, shown below what would be run or changed.

Decides which keys there are, and from when on they answer.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl

from understudy.cli.chat.chat import Chat
from understudy.cli.chat.showing import ShownQuestion
from understudy.cli.typed_answers import TypedAnswers
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

PAUSE = 0.6  # seconds without a key before keys answer, so that nobody approves by accident while typing

KEYS: dict[str, Decision] = {"y": "approved", "s": "approved_for_session", "n": "denied", "q": "abort"}
MOST_KEYS = 9  # options that have a key
_SHORT = {"y": "yes", "s": "always", "n": "no", "q": "abort", "v": "view"}


def input_menu(question: InputQuestion) -> list[tuple[str, str]]:
    """The keys for one question of the model."""
    offered = [(str(number), one_line(option.label)) for number, option in enumerate(question.options[:MOST_KEYS], 1)]
    return [*offered, ("w", "in your own words"), ("n", "no answer"), ("q", "abort the turn")]


def menu(question: Question, width: int, *, folded: bool = False) -> list[tuple[str, str]]:
    """The keys and what they do. `folded`: not everything in question could be shown at once."""
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
    """None for a key without a meaning here."""
    return KEYS[key] if any(key == offered for offered, _ in menu(question, 0)) else None


class QuestionPanel:
    """Keys answer once nobody has typed, and the question has been shown, for a moment, so that nobody approves by accident."""

    def __init__(self, chat: Chat, width: Callable[[], int], spell: Callable[[str], str], changed: Callable[[], None]) -> None:
        self.control = FormattedTextControl(self._text, focusable=True, show_cursor=False)
        self.takes_keys = False
        self.refusing: ShownQuestion | None = None  # it will be denied, and a reason is being typed
        self._chat = chat
        self._width = width
        self._spell = spell
        self._changed = changed
        self._last_key = float("-inf")
        self._seen: ShownQuestion | None = None
        self._seen_at = 0.0
        self._put_off = False  # the person wants to type something else first

    def open(self) -> ShownQuestion | None:
        return next((asked for asked in self._chat.showing.questions.values() if not asked.answered), None)

    def look(self) -> bool:
        """Call it before each drawing: whether keys now answer the question."""
        self.takes_keys = self._may_take_keys()
        return self.takes_keys

    def _may_take_keys(self) -> bool:
        asked = self.open()
        if asked is None or asked is not self._seen:
            self._seen, self._seen_at, self._put_off = asked, monotonic(), False
        if asked is None or self.refusing is not None or self._put_off:
            return False
        left = max(self._last_key, self._seen_at) + PAUSE - monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left + 0.01, self._changed)
        return left <= 0

    def note_key(self) -> None:
        """A key that answers does not count as typing; the next question has a pause of its own."""
        if not self.takes_keys:
            self._last_key = monotonic()

    def put_off(self) -> None:
        """Keys go to the line until `call_back`."""
        self._put_off = True

    def call_back(self) -> None:
        self._put_off = False
        self._last_key = float("-inf")

    def keys(self, takes_keys: Callable[[], bool], refuse: Callable[[ShownQuestion], None]) -> KeyBindings:
        keys = KeyBindings()
        asking = Condition(takes_keys)

        @keys.add("<any>", filter=asking)
        def _(event: KeyPressEvent) -> None:
            asked = self.open()
            if asked is None or asked is not self._seen:
                return
            if event.data.lower() == "v" and asked.folded:
                self._chat.begin(lambda: self._view(asked))
                return
            if asked.typed is not None:
                self._take_key(asked, asked.typed, event.data.lower(), refuse)
                return
            decision = decision_of(event.data.lower(), asked.question)
            if decision == "denied":
                refuse(asked)
            elif decision is not None:
                call_id = asked.question.call_id
                self._chat.begin(lambda: self._chat.decide(call_id, decision))

        @keys.add("tab", filter=asking)
        def _(event: KeyPressEvent) -> None:
            self.put_off()

        return keys

    def _take_key(self, asked: ShownQuestion, typed: TypedAnswers, key: str, write: Callable[[ShownQuestion], None]) -> None:
        """Answers something that the model wants to know."""
        if key not in [offered for offered, _ in input_menu(typed.current)]:
            return
        if key == "w":
            write(asked)
        elif key == "q":
            self._chat.begin(lambda: self._chat.decide(asked.question.call_id, "abort"))
        else:
            self._chat.begin(lambda: self._chat.answer(asked, "" if key == "n" else key))
            self._last_key = monotonic()  # the next one has a pause of its own

    async def _view(self, asked: ShownQuestion) -> None:
        self._chat.showing.tell_all_of(asked)

    def _text(self) -> StyleAndTextTuples:
        asked = self.open()
        if asked is None:
            return []
        if self.refusing is asked and asked.typed is not None:
            return [("class:question", "  Enter sends what you type as the answer. Esc goes back")]
        if self.refusing is asked:
            return [("class:question", "  Enter denies it, and what you type is told to the model. Esc goes back")]
        if self._put_off:
            return [("class:question", "  a question is open: Tab on an empty line goes back to it")]
        if not self.takes_keys:
            return [("class:question", self._spell("  … a question: stop typing to answer it"))]
        if asked.typed is not None:
            parts: StyleAndTextTuples = [("class:question", f"  {one_line(asked.typed.current.header)}")]
            keys = input_menu(asked.typed.current)
        else:
            parts, keys = [], menu(asked.question, self._width() - 2, folded=asked.folded)
        for key, about in keys:
            parts += [("", "  "), ("class:key", f"[{key}] "), ("", about)]
        return parts
