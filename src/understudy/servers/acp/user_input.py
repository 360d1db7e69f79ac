"""Asks an editor what the model wants to know: in a form if the editor supports forms, otherwise one question after the other as
choices.
"""

from collections.abc import Callable
from typing import Any, cast

from understudy.engine.turn.approvals import CLIENT
from understudy.policy.user_input import (
    input_text,
    one_line,
    option_text,
    own_words_field,
    own_words_fields,
    read_answers,
    with_own_words,
)
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.records import Answers, InputQuestion, UserInputAsked
from understudy.servers.acp.content import Json, question_content
from understudy.servers.questions import NOT_READABLE, unusable

Send = Callable[[str, Json, Callable[[Response], None]], RequestId]
"""Makes a request to the editor: its method, its params, and the callback for the answer."""

NO_WORDS = "The editor has no field to type the answer into; another client can give it."
_LEAVE = {"optionId": "none", "name": "Do not answer", "kind": "reject_once"}


def ask_by_form(
    asked: UserInputAsked, session_id: str, tool_call_id: str, send: Send, answered: Callable[[Response], None]
) -> RequestId:
    words = own_words_fields(asked)
    fields: Json = {}
    for each in asked.questions:
        fields[each.id] = _field(each)
        if each.id in words:
            fields[words[each.id]] = own_words_field(each)
    form = {"type": "object", "properties": fields}
    params = {"sessionId": session_id, "toolCallId": tool_call_id, "mode": "form", "message": input_text(asked)}
    return send("elicitation/create", {**params, "requestedSchema": form}, answered)


def _field(question: InputQuestion) -> Json:
    field: Json = {"type": "string", "title": one_line(question.header), "description": one_line(question.question)}
    if question.options:
        field["oneOf"] = [
            {"const": option.label, "title": text.partition(". ")[2]}
            for option, text in zip(question.options, option_text(question), strict=True)
        ]
    return field


class OneByOne:
    """One question after the other. The first unanswered question ends it."""

    def __init__(self, asked: UserInputAsked, about: Json, send: Send, answered: Callable[[Response], None]) -> None:
        self.open: RequestId = 0
        self._asked = asked
        self._about = about
        self._send = send
        self._answered = answered
        self._given: dict[str, str] = {}

    def put(self, number: int = 0) -> RequestId:
        question = self._asked.questions[number]
        options = [
            {"optionId": str(at), "name": text.partition(". ")[2], "kind": "allow_once"}
            for at, text in enumerate(option_text(question))
        ]
        words = f"{one_line(question.header)}: {one_line(question.question)}" + ("" if options else f"\n{NO_WORDS}")
        call = {**self._about, "title": one_line(question.question), "content": [question_content(words)]}
        params: Json = {"toolCall": call, "options": [*options, _LEAVE]}
        self.open = self._send("session/request_permission", params, lambda response: self._take(number, response))
        return self.open

    def _take(self, number: int, response: Response) -> None:
        question = self._asked.questions[number]
        match None if response.failed or response.unreadable else response.result:
            case {"outcome": {"outcome": "selected", "optionId": str(chosen)}} if chosen.isdigit() and int(chosen) < len(
                question.options
            ):
                self._given[question.id] = question.options[int(chosen)].label
            case {"outcome": {"outcome": "selected", "optionId": "none"}}:
                pass
            case _:
                self._answered(response)
                return
        if number + 1 < len(self._asked.questions):
            self.put(number + 1)
        else:
            result = {"action": "accept", "content": self._given} if self._given else {"action": "decline"}
            self._answered(Response(response.id, result))


def read_input(asked: UserInputAsked, response: Response) -> tuple[Decision, str, Answers]:
    if (refusal := unusable(response)) is not None:
        return *refusal, {}
    match response.result:
        case {"outcome": {"outcome": "cancelled"}}:
            return "abort", CLIENT, {}
        case {"action": {"action": _} as told} | ({"action": str()} as told):
            return _read_form(asked, cast("dict[str, Any]", told))
        case _:
            return "denied", NOT_READABLE, {}


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in (cast("list[Any]", value) if isinstance(value, list) else [value]))


def _read_form(asked: UserInputAsked, told: dict[str, Any]) -> tuple[Decision, str, Answers]:
    match told:
        case {"action": "accept", "content": content} if isinstance(content, dict):
            given = cast("dict[str, Any]", content)
            try:
                said = with_own_words(asked, given).items()
                answers = read_answers(asked, {name: _words(value) for name, value in said if value is not None})
            except ValueError as error:
                return "denied", f"the client's answer could not be used: {error}", {}
            return ("approved", CLIENT, answers) if answers else ("denied", "the editor sent the form back without an answer", {})
        case {"action": "cancel"}:
            return "denied", "the editor put the question away without an answer", {}
        case _:
            return "denied", CLIENT, {}
