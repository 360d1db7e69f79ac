"""What the model wants to know as an elicitation's form, one field for each question, and the answers in it."""

from typing import Any, cast

from understudy.engine.turn.approvals import CLIENT
from understudy.errors import InvalidArguments
from understudy.policy.user_input import input_text, one_line, own_words_field, own_words_fields, read_answers, with_own_words
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import Response
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Answers, InputQuestion, UserInputAsked
from understudy.servers.failures import InvalidParams
from understudy.servers.questions import unusable

CANCELLED = "the client put the question away without an answer"
EMPTY = "the client sent the form back without an answer"


def input_params(asked: UserInputAsked) -> dict[str, Any]:
    """The message also has all of it, for clients that show only the message."""
    words = own_words_fields(asked)
    properties: dict[str, Any] = {}
    for question in asked.questions:
        properties[question.id] = _field(question)
        if question.id in words:
            properties[words[question.id]] = own_words_field(question)
    required = [question.id for question in asked.questions if question.id not in words]
    form = {"type": "object", "properties": properties, "required": required}
    return {"message": input_text(asked), "requestedSchema": form, "codex_elicitation": "user-input"}


def _field(question: InputQuestion) -> dict[str, Any]:
    field = {"type": "string", "title": one_line(question.header), "description": one_line(question.question)}
    if not question.options:
        return field
    names = [one_line(f"{each.label}: {each.description}" if each.description else each.label) for each in question.options]
    return field | {"enum": [option.label for option in question.options], "enumNames": names}


def answer_on(asked: UserInputAsked, turn: str, asked_at: float, response: Response, client: str) -> Decide:
    """If it is not an answer, that is said: it must not look like an empty one."""
    decision, source, answers = _read(asked, response)
    if decision == "approved":
        return Answer(asked.call_id, decision, source, turn, asked_at=asked_at, client=client, answers=answers)
    return Decide(asked.call_id, decision, source, turn, asked_at=asked_at, client=client)


def _read(asked: UserInputAsked, response: Response) -> tuple[Decision, str, Answers]:
    if (refusal := unusable(response)) is not None:
        return *refusal, {}
    match response.result:
        case {"action": "accept", "content": content} if isinstance(content, dict):
            try:
                answers = _read_content(asked, cast("dict[str, Any]", content))
            except ValueError as error:
                return "denied", f"the client's answer could not be used: {error}", {}
            return ("approved", CLIENT, answers) if answers else ("denied", EMPTY, {})
        case {"action": "accept"}:
            return "denied", EMPTY, {}
        case {"action": "cancel"}:
            return "denied", CANCELLED, {}
        case {"decision": "abort"}:
            return "abort", CLIENT, {}
        case _:
            return "denied", CLIENT, {}


def _read_content(asked: UserInputAsked, content: dict[str, Any]) -> Answers:
    """Raises `ValueError`."""
    return read_answers(asked, {name: _words(name, value) for name, value in with_own_words(asked, content).items()})


def _words(name: str, value: Any) -> tuple[str, ...]:
    """Raises `ValueError`."""
    if value is None:
        return ()
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    if any(isinstance(each, dict | list) or each is None for each in values):
        raise ValueError(f"`{one_line(name)}` should be a text")
    return tuple(str(each) for each in values)


def given_answer(asked: UserInputAsked, values: dict[str, Any], asked_at: float, client: str) -> Decide:
    """The answer from a tool's arguments. Raises `InvalidArguments`."""
    if values["decision"] in ("denied", "abort"):
        return Decide(asked.call_id, values["decision"], CLIENT, asked_at=asked_at, client=client)
    try:
        answers = _read_content(asked, values.get("answers") or {})
    except ValueError as error:
        raise InvalidArguments(f"{error}\nin `answers`") from None
    if not answers:
        names = ", ".join(f"`{one_line(question.id)}`" for question in asked.questions)
        raise InvalidArguments(f"this question takes words: give them in `answers`, an object with {names}, or deny it")
    return Answer(asked.call_id, "approved", CLIENT, asked_at=asked_at, client=client, answers=answers)


def check_input(asked: UserInputAsked, result: Any) -> None:
    """For answers in a request of the client's: an answer that cannot be understood is refused, and the question stays open.

    Raises `InvalidParams`.
    """
    match result:
        case {"action": "accept", "content": content} if isinstance(content, dict):
            try:
                _read_content(asked, cast("dict[str, Any]", content))
            except ValueError as error:
                raise InvalidParams(str(error)) from None
        case {"action": "accept", "content": content} if content is not None:
            raise InvalidParams("`content` of an answer should be an object with the fields of the form")
        case {"action": "accept" | "decline" | "cancel"}:
            pass
        case _:
            raise InvalidParams("an answer should be an object with `action`: accept, decline or cancel")
