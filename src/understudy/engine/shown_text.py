"""Text that arrives in pieces, perhaps more than once: a retried answer is shown only beyond what was shown before."""

from io import StringIO

UNFINISHED_CHARACTERS = 1024 * 1024  # of an answer that was cut off; the model is sent them with every later request


def cut_off(text: str) -> str:
    """What is kept of an answer that will not be completed: all of it, unless it is huge."""
    left_out = len(text) - UNFINISHED_CHARACTERS
    return text if left_out <= 0 else f"{text[:UNFINISHED_CHARACTERS]}\n[... {left_out} more characters were cut off ...]"


class ShownText:
    def __init__(self) -> None:
        self._shown: StringIO | None = None  # not a list: a long answer has millions of small pieces
        self._expected = ""  # what was shown of an earlier attempt
        self._again = 0  # so many characters of it have come again
        self._strayed = False
        self.strayed_now = False  # true just after the piece with which it went another way

    @property
    def shown(self) -> str:
        """What viewers have of an answer that is not complete."""
        return "" if self._strayed else self._so_far()

    @property
    def untouched(self) -> bool:
        """Nothing has come since the last item was complete, and nothing is expected."""
        return self._shown is None and not self._expected

    @property
    def falls_short(self) -> bool:
        """If it ended here, viewers would have been shown more than was said."""
        return bool(self._expected) and not self._strayed

    def hear(self, piece: str) -> str:
        """The part of `piece` that is new to viewers."""
        self.strayed_now = False
        if self._strayed:
            return ""
        if self._shown is None:
            self._shown = StringIO()
        if not self._expected:
            self._shown.write(piece)
            return piece
        known = min(len(piece), len(self._expected) - self._again)
        if not self._expected.startswith(piece[:known], self._again):
            self._strayed = self.strayed_now = True
            return ""
        self._again += known
        if self._again == len(self._expected):
            self._expected = ""
        new = piece[known:]
        self._shown.write(new)
        return new

    def begin_again(self) -> None:
        """The answer broke off and is asked for anew."""
        self._expected = self._so_far()
        self._again = 0

    def finish(self) -> None:
        """The item is complete: the next one starts from nothing."""
        self._shown = None
        self._expected = ""
        self._strayed = False

    def _so_far(self) -> str:
        return "" if self._shown is None else self._shown.getvalue()
