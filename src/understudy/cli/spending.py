"""Tokens and cost for people: short, and nothing where nothing is known."""

from understudy.store.log import Summary


def spent_line(summary: Summary) -> str:
    """`12.3k tokens, $0.042`; empty where neither is known."""
    tokens = f"{tokens_text(summary.tokens)} tokens" if summary.tokens else ""
    return ", ".join(text for text in (tokens, cost_text(summary.cost_usd)) if text)


def tokens_text(tokens: int | None) -> str:
    if tokens is None:
        return ""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return str(tokens)


def cost_text(cost: float | None) -> str:
    """Two digits after the point, or as many as it takes to show that it is not nothing."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost == 0 or cost >= 0.1 else f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"


def seconds_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
