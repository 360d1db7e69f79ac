"""Text that arrives in pieces, perhaps more than once: a retried answer is shown only beyond what was shown before."""


class Retelling:
    def __init__(self) -> None:
        self._told: list[str] = []
        self._expected = ""  # what was shown of an earlier attempt and has not come again yet
        self._strayed = False
        self.strayed_now = False  # true just after the piece with which it went another way

    @property
    def told(self) -> str:
        """What viewers have of an answer that is not complete."""
        return "" if self._strayed else "".join(self._told)

    @property
    def falls_short(self) -> bool:
        """If it ended here, viewers would have been shown more than was said."""
        return bool(self._expected) and not self._strayed

    def hear(self, piece: str) -> str:
        """The part of `piece` that is new to viewers."""
        self.strayed_now = False
        if self._strayed:
            return ""
        if not self._expected:
            self._told.append(piece)
            return piece
        if self._expected.startswith(piece):
            self._expected = self._expected[len(piece) :]
            return ""
        if piece.startswith(self._expected):
            new = piece[len(self._expected) :]
            self._expected = ""
            self._told.append(new)
            return new
        self._strayed = self.strayed_now = True
        return ""

    def begin_again(self) -> None:
        """The answer broke off and is asked for anew."""
        self._expected = "".join(self._told)

    def finish(self) -> None:
        """The item is complete: the next one starts from nothing."""
        self._told.clear()
        self._expected = ""
        self._strayed = False
