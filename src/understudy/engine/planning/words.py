"""What the model is told of plan mode, and where its messages hold a plan."""

import re

from understudy.protocol.items import InputText, Message

BEGIN, END = "<proposed_plan>", "</proposed_plan>"

PLAN_MODE = Message(
    "developer",
    (
        InputText(
            "<collaboration_mode>\nPlan mode is on. Commands run read-only, and whatever would change a file is refused. Find out "
            "what you need, ask the user with request_user_input what only they can decide, and then answer with a plan that can "
            f"be carried out without further questions, between {BEGIN} and {END}, each on a line of its own. The user accepts, "
            "changes or refuses it.\n</collaboration_mode>"
        ),
    ),
)
PLAN_OVER = Message(
    "developer", (InputText("<collaboration_mode>\nPlan mode is over: you may change files again.\n</collaboration_mode>"),)
)

ACCEPTED = "Plan mode is over. The plan is accepted: carry it out."
CHANGED = "Plan mode is over. The plan is accepted with these changes: carry it out with them."
REFUSED = "The plan is refused. Plan mode stays on: propose another one."


_PLAN = re.compile(rf"^[ \t]*{BEGIN}[ \t]*\n(.*?)^[ \t]*{END}[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_IN_ONE_LINE = re.compile(rf"{BEGIN}(.*?){END}", re.DOTALL)


def split_plan(text: str) -> tuple[str, str]:
    """The plan that a message proposes ("" if none), and the message without it."""
    found = _PLAN.search(text) or _IN_ONE_LINE.search(text)
    return ("", text) if found is None else (found[1], text[: found.start()] + text[found.end() :])
