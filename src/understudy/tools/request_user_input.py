"""`request_user_input`: the model asks the user something, and continues once it is answered."""

import msgspec

from understudy.errors import ToolError
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import InputOption, InputQuestion
from understudy.text import make_visible
from understudy.tools.calls import ToolOutput, read_arguments
from understudy.tools.tool import ToolContext

MOST_QUESTIONS = 4
MOST_OPTIONS = 12
MOST_CHARACTERS = 4000  # of any one text
MOST_OF_NAME = 64


class OptionParams(msgspec.Struct, frozen=True):
    label: str
    description: str = ""


class QuestionParams(msgspec.Struct, frozen=True):
    question: str
    id: str = ""
    header: str = ""
    options: tuple[OptionParams, ...] | None = None


class InputParams(msgspec.Struct, frozen=True):
    questions: tuple[QuestionParams, ...]


class RequestUserInput:
    name = "request_user_input"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, InputParams, "RequestUserInputArgs")
        return await context.ask_user(_checked(params))


def _checked(params: InputParams) -> tuple[InputQuestion, ...]:
    """Raises `ToolError` if a person could not be asked that."""
    if not 1 <= len(params.questions) <= MOST_QUESTIONS:
        raise ToolError(f"request_user_input takes 1 to {MOST_QUESTIONS} questions, not {len(params.questions)}")
    questions = tuple(_question(question, number) for number, question in enumerate(params.questions, 1))
    if len({question.id for question in questions}) < len(questions):
        raise ToolError("request_user_input needs a different id for every question")
    return questions


def _question(params: QuestionParams, number: int) -> InputQuestion:
    name = params.id or f"q{number}"
    options = tuple(InputOption(option.label, option.description) for option in params.options or ())
    texts = (params.question, params.header, *(text for option in options for text in (option.label, option.description)))
    if not params.question.strip() or any(not option.label.strip() for option in options):
        raise ToolError(f"request_user_input: question {number} and each label of its options need words")
    if make_visible(" ".join(name.split())) != name:  # clients show it as the name of a field
        raise ToolError(f"request_user_input: the id of question {number} should be a plain word")
    if len({option.label for option in options}) < len(options):
        raise ToolError(f"request_user_input: the options of question {number} need different labels")
    if len(options) > MOST_OPTIONS or len(name) > MOST_OF_NAME or any(len(text) > MOST_CHARACTERS for text in texts):
        raise ToolError(
            f"request_user_input: question {number} is too long: at most {MOST_OPTIONS} options, "
            f"{MOST_OF_NAME} characters of an id, {MOST_CHARACTERS} of any text"
        )
    return InputQuestion(name, params.header or f"Question {number}", params.question, options)
