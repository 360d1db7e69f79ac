"""What a person is asked where a hook wants that, or has failed. Pure."""

from understudy.protocol.records import HookApprovalAsked
from understudy.text import in_ticks, make_visible

_LONGEST = 20_000  # characters of what is to be done that are shown


def hook_question(asked: HookApprovalAsked) -> str:
    """The first line: what is to be done."""
    if not asked.tool:
        return "Let the model read this message?"
    first = asked.shown.strip().partition("\n")[0]
    return f"Allow Codex to call {in_ticks(asked.tool)}: {make_visible(first[:60])}{'…' if len(first) > 60 else ''}?"


def hook_details(asked: HookApprovalAsked) -> tuple[str, ...]:
    """The lines after the first: which hook, what it said, and all that is to be done."""
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
