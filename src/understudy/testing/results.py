"""What is in the result of `codex` and `codex-reply`."""

from collections.abc import Mapping
from typing import Any


def text_of(result: Mapping[str, Any]) -> str:
    """The agent's answer."""
    return str(result["content"][0]["text"])


def thread_of(result: Mapping[str, Any]) -> str:
    """The id with which `codex-reply` continues the conversation."""
    return str(result["structuredContent"]["threadId"])
