"""Answers that a person types to the model's questions, one by one: a number, a label, or other words; Enter alone: no answer."""

from understudy.engine.turn.approvals import CLIENT
from understudy.policy.user_input import MOST_OF_ANSWER, chosen_by, one_line
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Answers, InputQuestion, UserInputAsked

LONGEST_HEADER = 24


class TypedAnswers:
    def __init__(self, asked: UserInputAsked) -> None:
        self._asked = asked
        self._answers: Answers = {}
        self._next = 0

    @property
    def current(self) -> InputQuestion:
        """The question to answer next; after all of them the last."""
        return self._asked.questions[min(self._next, len(self._asked.questions) - 1)]

    def prompt(self) -> str:
        """On one line, with room for the answer after it."""
        choose = f"1-{len(self.current.options)}, or your own words" if self.current.options else "your own words"
        header = one_line(self.current.header)
        header = header if len(header) <= LONGEST_HEADER else header[: LONGEST_HEADER - 1] + "…"
        return f"  {header} ({choose}; Enter alone: no answer)? "

    def take(self, typed: str) -> bool:
        """Whether that was the last question."""
        words = chosen_by(self.current, typed)[:MOST_OF_ANSWER]
        if words:
            self._answers[self.current.id] = (words,)
        self._next += 1
        return self._next >= len(self._asked.questions)

    def op(self, turn: str = "", asked_at: float = 0.0) -> Decide:
        """If nothing was answered, that is a no, and the model is told so."""
        if not self._answers:
            return Decide(self._asked.call_id, "denied", CLIENT, turn, asked_at=asked_at)
        return Answer(self._asked.call_id, "approved", CLIENT, turn, asked_at=asked_at, answers=self._answers)
