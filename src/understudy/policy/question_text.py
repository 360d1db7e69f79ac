"""Any kind of question in words: its full text, why it is asked (also by a hook), and what a yes allows."""

from typing import Literal

from understudy.policy.mcp_tools import tool_message
from understudy.policy.questions import CommandQuestion, PatchQuestion, command_message, patch_message
from understudy.policy.user_input import input_text
from understudy.protocol.choices import BudgetLimit
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.text import in_ticks, make_visible


def budget_question(asked: BudgetAsked) -> str:
    """On one line, with the meaning of yes and no."""
    return (
        f"Go on? {budget_state(asked).capitalize()}. If approved, the limit is raised to {amount(asked.limit, asked.raised_to)}; "
        "if denied, the turn stops here."
    )


def budget_state(asked: BudgetAsked) -> str:
    """`the budget of this conversation is used up: 1,050 of 1,000 tokens`."""
    whose = "this conversation" if asked.message_id is None else "this call"
    used, allowed = amount(asked.limit, asked.used), amount(asked.limit, asked.allowed)
    return f"the budget of {whose} is used up: {used.split()[0]} of {allowed}"


def amount(limit: BudgetLimit, value: float) -> str:
    match limit:
        case "cost_usd":
            return f"${value:,.2f}" if value >= 1 else f"${value:,.4f}"
        case "seconds":
            return f"{value:,.0f} seconds" if value >= 10 else f"{value:.1f} seconds"
        case "tokens" | "requests":
            return f"{value:,.0f} {limit}"


_CODEX = "Allow Codex to "
Kind = Literal["command", "patch", "tool", "budget", "hook", "user_input"]


def kind_of(question: Question) -> Kind:
    match question:
        case CommandApprovalAsked():
            return "command"
        case PatchApprovalAsked():
            return "patch"
        case ToolApprovalAsked():
            return "tool"
        case BudgetAsked():
            return "budget"
        case HookApprovalAsked():
            return "hook"
        case UserInputAsked():
            return "user_input"


def question_text(question: Question, cwd: str) -> str:
    """The full question, as our own clients show it. Codex's clients get codex's words first."""
    text = _message(question, cwd)
    return f"Allow the agent to {text.removeprefix(_CODEX)}" if text.startswith(_CODEX) else text


def _message(question: Question, cwd: str) -> str:
    match question:
        case CommandApprovalAsked():
            return command_message(CommandQuestion.of(question))
        case PatchApprovalAsked():
            return patch_message(PatchQuestion.of(question, cwd))
        case BudgetAsked():
            return budget_question(question)
        case ToolApprovalAsked():
            return tool_message(question)
        case HookApprovalAsked():
            return hook_message(question)
        case UserInputAsked():
            return input_text(question)


def why_asked(question: Question) -> str:
    """On one line. The model's reason is marked as the model's words."""
    match question:
        case CommandApprovalAsked(retries=True):
            return "it has run in the sandbox and was refused something there"
        case CommandApprovalAsked(note=str(note)) if note:
            return f"a rule of yours asks: {_one_line(note)}"
        case CommandApprovalAsked(typed_at=str()):
            return "it is input for a command that runs"
        case CommandApprovalAsked(reason=str(words)) if words.strip():
            return f"the model asks to run it outside the sandbox and says, not checked: {_one_line(words)}"
        case CommandApprovalAsked():
            return "the approval policy asks before such a command"
        case PatchApprovalAsked(reason=str(reason)) if reason:
            return _one_line(reason)
        case PatchApprovalAsked(protected=protected, outside=outside):
            if protected:
                return "it changes files that are protected"
            return "it writes outside the project" if outside else "the approval policy asks before files are changed"
        case ToolApprovalAsked():
            return "the tool is not known to only read"
        case BudgetAsked():
            return budget_state(question)
        case HookApprovalAsked(failed=failed, hook=hook):
            return _one_line(f"the hook {hook} has failed" if failed else f"the hook {hook} asks")
        case UserInputAsked():
            return "the model wants to know it before it goes on"


def why_beyond_text(question: Question) -> str | None:
    """Why it is asked, unless `question_text` says so already; that text always says what a yes allows."""
    match question:
        case UserInputAsked():
            return None
        case BudgetAsked() | HookApprovalAsked() | CommandApprovalAsked(retries=True) | CommandApprovalAsked(typed_at=str()):
            return None
        case CommandApprovalAsked(note=note, reason=reason):
            return None if note or (reason or "").strip() else why_asked(question)
        case PatchApprovalAsked(reason=reason):
            return None if reason else why_asked(question)
        case ToolApprovalAsked():
            return why_asked(question)


def what_yes_lifts(question: Question) -> str:
    """On one line: what a yes allows beyond what is allowed already."""
    match question:
        case CommandApprovalAsked(typed_at=str(), full_access=full_access):
            return f"it is typed once, at a command that runs {'outside' if full_access else 'in'} the sandbox"
        case CommandApprovalAsked(full_access=True):
            return "it runs once with all rights of the account that runs understudy: this mode has no sandbox"
        case CommandApprovalAsked():
            return "it runs once outside the sandbox, with all rights of the account that runs understudy"
        case PatchApprovalAsked(changes=changes):
            return f"these changes are written, once ({len(changes)} file{'s' if len(changes) != 1 else ''})"
        case ToolApprovalAsked(contained=contained):
            return f"the tool is called once; its server runs {'in' if contained else 'outside'} the sandbox"
        case BudgetAsked(limit=limit, raised_to=raised_to):
            return f"the limit is raised to {amount(limit, raised_to)}"
        case HookApprovalAsked(tool=tool):
            return "only what the hook keeps back: rules and sandbox hold as ever" if tool else "the message is read by the model"
        case UserInputAsked():
            return "nothing: the answer is only told to the model"


def _one_line(text: str) -> str:
    return make_visible(" ".join(text.split())[:500])


_LONGEST = 20_000  # characters that are shown of what will be done


def hook_question(asked: HookApprovalAsked) -> str:
    """The first line: what will be done."""
    if not asked.tool:
        return "Let the model read this message?"
    first = asked.shown.strip().partition("\n")[0]
    return f"Allow Codex to call {in_ticks(asked.tool)}: {make_visible(first[:60])}{'…' if len(first) > 60 else ''}?"


def hook_details(asked: HookApprovalAsked) -> tuple[str, ...]:
    """The lines after the first: which hook, what it said, and all that will be done."""
    did = "has failed, so it could not say whether that is all right" if asked.failed else "asks"
    lines = [f"The {asked.event} hook {make_visible(asked.hook)} {did}."]
    if asked.reason:
        lines.append(make_visible(f"{'What went wrong' if asked.failed else 'It says'}: {asked.reason}"))
    shown = asked.shown if len(asked.shown) <= _LONGEST else f"{asked.shown[:_LONGEST]} [... {len(asked.shown) - _LONGEST} more]"
    lines.append(make_visible(shown, keep_newlines=True))
    return tuple(lines)


def hook_message(asked: HookApprovalAsked) -> str:
    return "\n".join((hook_question(asked), *hook_details(asked)))


def hook_reason(asked: HookApprovalAsked) -> str:
    return "\n".join(hook_details(asked))
