"""Asks the user what the model wants to know. Nothing is judged, because an answer permits nothing."""

import msgspec

from understudy.protocol.records import Answers, InputQuestion, UserInputAsked
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ApprovalAnswer, ToolHost

GO_ON = "Go on with what you know and say what you assumed, or end your turn with the question."


async def ask_user(host: ToolHost, call_id: str, questions: tuple[InputQuestion, ...]) -> ToolOutput:
    """Waits for the answer, however long it takes. The model can always tell a missing answer from an empty one."""
    asked = UserInputAsked(call_id, questions)
    answer = await host.ask(asked)
    if answer.decision != "denied" and answer.answers:
        return ToolOutput(_told(asked, answer.answers))
    return ToolOutput(f"{_unanswered(answer)} {GO_ON}", success=False)


def _told(asked: UserInputAsked, answers: Answers) -> str:
    told = {"answers": {name: {"answers": words} for name, words in answers.items()}}
    left = [question.id for question in asked.questions if question.id not in answers]
    return msgspec.json.encode(told).decode() + (f"\nNot answered: {', '.join(left)}." if left else "")


def _unanswered(answer: ApprovalAnswer) -> str:
    if answer.decision != "denied":
        return "Nobody answered: the answer was empty."
    if answer.source != "client":
        return f"Nobody answered: {answer.source}."
    return f"The user did not answer, and says: {answer.word}" if answer.word else "The user declined to answer."
