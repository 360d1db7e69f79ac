"""Tokens and cost for people: short, and nothing where nothing is known."""

from understudy.store.log import Summary


def spent_line(summary: Summary) -> str:
    """`12.3k tokens, $0.042`; empty where neither is known."""
    return ", ".join(text for text in (f"{tokens_text(summary)} tokens" if summary.tokens else "", cost_text(summary)) if text)


def tokens_text(summary: Summary) -> str:
    if summary.tokens is None:
        return ""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if summary.tokens >= size:
            return f"{summary.tokens / size:.1f}{unit}"
    return str(summary.tokens)


def cost_text(summary: Summary) -> str:
    """Two digits after the point, or as many as it takes to show that it is not nothing."""
    cost = summary.cost_usd
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost == 0 or cost >= 0.1 else f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"
