"""How deeply JSON is nested, by its brackets alone: that takes no stack, and is the same with every interpreter."""

import re

BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)  # and texts, which may hold some that mean nothing


def is_deeper_than(text: bytes | bytearray, levels: int) -> bool:
    depth = 0
    for found in BRACKETS.finditer(text):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth > levels:
                    return True
            case b"}" | b"]":
                depth -= 1
            case _:
                pass  # a text
    return False
