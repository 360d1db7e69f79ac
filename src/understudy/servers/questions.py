"""Asks one conversation's client questions by requests of ours: each once, withdrawn if it is answered elsewhere, with a meaning
for each answer.
"""

import logging
from collections.abc import Callable

import msgspec

from understudy.engine.handle import Handle
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Answers, Question, UserInputAsked
from understudy.text import make_visible

NOT_READABLE = "the client's answer to the approval question could not be read"
_LONGEST_ERROR = 200


def unusable(response: Response) -> tuple[Decision, str] | None:
    """The no that an error stands for, and its reason; None if the response has a result, which the door reads."""
    if response.unreadable:
        return "denied", NOT_READABLE
    if response.failed:
        return "denied", f"the client answered the approval question with an error{_error_text(response.error)}"
    return None


def _error_text(error: object) -> str:
    match error:
        case None:
            return ""
        case {"message": str(message)}:
            text = " ".join(message[:_LONGEST_ERROR].split())
        case _:
            text = msgspec.json.encode(error).decode()[:_LONGEST_ERROR]
    return f": {make_visible(text)}"


logger = logging.getLogger(__name__)

OnAnswer = Callable[[Response], None]


class AskedQuestions:
    def __init__(
        self,
        handle: Handle,
        read_answer: Callable[[Response], tuple[Decision, str]],
        withdraw: Callable[[RequestId], None],
        answered: Callable[[RequestId], None] = lambda request_id: None,
        *,
        read_input: Callable[[UserInputAsked, Response], tuple[Decision, str, Answers]],
    ) -> None:
        """`read_answer`: returns a decision and its source. `withdraw`: tells the client that its answer is no longer needed."""
        self._handle = handle
        self._read_answer = read_answer
        self._read_input = read_input
        self._tell_withdrawn = withdraw
        self._tell_answered = answered
        self._asked: dict[tuple[str, str], tuple[RequestId, Question]] = {}  # by turn and call

    def ask(self, question: Question, turn: str, send: Callable[[OnAnswer], RequestId]) -> None:
        """Ask, unless the same question is already being asked or is no longer open. `send` makes the request and returns
        its id.
        """
        key = turn, question.call_id
        before = self._asked.get(key)
        if self._handle.open_question(question.call_id) != question or (before is not None and before[1] == question):
            return
        if before is not None:
            self.withdraw(question.call_id, turn)  # what would be approved has changed
        asked_at = self._handle.asked_at(question.call_id)
        self._asked[key] = send(lambda response: self._take(key, question, asked_at, response)), question

    def withdraw(self, call_id: str, turn: str) -> None:
        """The question was answered elsewhere, or no longer matters."""
        asked = self._asked.pop((turn, call_id), None)
        if asked is not None:
            self._tell_withdrawn(asked[0])

    def withdraw_all(self) -> None:
        for turn, call_id in tuple(self._asked):
            self.withdraw(call_id, turn)

    def _take(self, key: tuple[str, str], question: Question, asked_at: float, response: Response) -> None:
        asked = self._asked.pop(key, None)
        if asked is not None:
            self._tell_answered(asked[0])
        if self._handle.open_question(question.call_id) not in (None, question):
            logger.info("the answer to %s is to a question that has changed meanwhile", question.call_id)
            return
        if isinstance(question, UserInputAsked):
            decision, source, answers = self._read_input(question, response)
            if decision == "approved":
                self._handle.submit_soon(Answer(question.call_id, decision, source, key[0], asked_at=asked_at, answers=answers))
                return
        else:
            decision, source = self._read_answer(response)
        self._handle.submit_soon(Decide(question.call_id, decision, source, key[0], asked_at=asked_at))
