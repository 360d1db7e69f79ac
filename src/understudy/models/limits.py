"""How large one answer of a model may be. Beyond it the turn ends with the reason; nothing of it is kept in memory.

The largest models write about half a megabyte at once. docs/configuration.md names these figures.
"""

from understudy.errors import ModelRefused

MIB = 1024 * 1024

ANSWER_TEXT = 4 * MIB  # bytes of text, and as many of reasoning
ANSWER_ARGUMENTS = 8 * MIB  # bytes of the arguments of all tool calls together
ANSWER_ITEMS = 16 * 1024  # messages, thoughts and tool calls
EVENT_LIMIT = 24 * MIB  # bytes of one event: a whole answer, escaped
UNSAID_LIMIT = EVENT_LIMIT + 8 * MIB  # bytes of a stream in which nothing is said: comments, empty events, and one that is large
ERROR_BODY_LIMIT = 64 * 1024  # bytes of an error's body that are read


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Sizes:
    """What one answer has come to so far. Each method raises ModelRefused once it is too much."""

    __slots__ = ("_arguments", "_items", "_thoughts", "text")

    def __init__(self) -> None:
        self.text = self._thoughts = self._arguments = self._items = 0

    @property
    def total(self) -> int:
        """It grows with whatever is said."""
        return self.text + self._thoughts + self._arguments + self._items

    def add_text(self, text: str) -> None:
        self.text += size_of(text)
        if self.text > ANSWER_TEXT:
            raise too_large(f"more than {ANSWER_TEXT // MIB} MiB of text")

    def add_thought(self, text: str) -> None:
        self._thoughts += size_of(text)
        if self._thoughts > ANSWER_TEXT:
            raise too_large(f"more than {ANSWER_TEXT // MIB} MiB of reasoning")

    def add_arguments(self, text: str) -> None:
        self._arguments += size_of(text)
        if self._arguments > ANSWER_ARGUMENTS:
            raise too_large(f"more than {ANSWER_ARGUMENTS // MIB} MiB of arguments for tools")

    def add_item(self) -> None:
        self._items += 1
        if self._items > ANSWER_ITEMS:
            raise too_large(f"more than {ANSWER_ITEMS} messages and tool calls")


def too_large(what: str) -> ModelRefused:
    return ModelRefused(
        f"the model's answer is too large: {what} in one answer. It was not read any further; ask for the work in smaller steps"
    )
