"""What is alike at every door in a client's answer to an approval question: an error, or what cannot be read, is a no."""

import msgspec

from understudy.policy.visible import make_visible
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import Response

NOT_READABLE = "the client's answer to the approval question could not be read"
_LONGEST_ERROR = 200


def unusable(response: Response) -> tuple[Decision, str] | None:
    """The no that it stands for, and why; None where it has a result, which the door reads."""
    if response.unreadable:
        return "denied", NOT_READABLE
    if response.failed:
        return "denied", f"the client answered the approval question with an error{_error_text(response.error)}"
    return None


def _error_text(error: object) -> str:
    match error:
        case None:
            return ""
        case {"message": str(message)}:
            text = " ".join(message[:_LONGEST_ERROR].split())
        case _:
            text = msgspec.json.encode(error).decode()[:_LONGEST_ERROR]
    return f": {make_visible(text)}"
