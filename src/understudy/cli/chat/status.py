"""The last line of the chat: what goes on, and with what."""

import time

from understudy.cli.chat.chat import Chat
from understudy.cli.spending import seconds_text, tokens_text
from understudy.cli.terminal import one_line, shorten


def status_text(chat: Chat, width: int) -> str:
    """As much as there is room for, the most important first."""
    facts, showing = chat.handle.facts, chat.showing
    parts: list[str] = []
    if showing.turn is not None:
        seconds = seconds_text(float(int(max(time.time() - showing.turn_began, 0.0)))).replace(".0", "")
        if showing.interrupting:
            parts.append(f"interrupting {seconds}")
        elif showing.questions:
            parts.append(f"waits for you {seconds}")
        else:
            parts.append(f"working {seconds}")
        if showing.turn_tokens:
            parts.append(f"{tokens_text(showing.turn_tokens)} tokens")
        parts += [one_line(chat.model()), "Esc interrupts", "Enter steers", "Tab queues"]
    else:
        chosen = chat.chosen
        parts.append(one_line(chat.model()))
        if showing.usage is not None:
            parts.append(f"{tokens_text(showing.usage.total_tokens)} tokens")
        parts.append((chosen and chosen.sandbox) or facts.sandbox or "")
        parts.append((chosen and chosen.approval_policy) or facts.approval_policy or "")
        parts.append("/help")
    line = ""
    for part in filter(None, parts):
        longer = f"{line} · {part}" if line else part
        if line and len(longer) > width:
            break
        line = longer
    return shorten(line, width)
