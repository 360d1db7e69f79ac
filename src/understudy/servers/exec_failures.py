"""Why a turn failed, in the words that programs are shown: the status and the model's own message, never a raw body."""

import re

_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b[^:\n]*(?:: )?")

_TAG = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def failure_text(message: str) -> str:
    """`unexpected status 401 Unauthorized: {"error": …}` is `HTTP 401: …`; other texts stay as they are."""
    found = _STATUS.match(message)
    if found is None:
        return message
    from understudy.models.faults import fault_in_body  # only for what has failed

    lines = message[found.end() :].split("\n")
    for count in range(len(lines), 0, -1):  # a hint may follow the body, which may have several lines
        body = "\n".join(lines[:count])
        told = fault_in_body(body).message
        if told != body.strip():
            return "\n".join([f"HTTP {found[1]}: {told}", *lines[count:]])
    first = _TAG.sub(" ", lines[0]) if lines[0].lstrip().startswith("<") else lines[0]  # a web page
    rest = "\n".join([" ".join(first.split()), *lines[1:]])
    return f"HTTP {found[1]}: {rest}" if rest.strip() else f"HTTP {found[1]}"
