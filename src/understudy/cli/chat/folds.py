"""What was shown in part: each such piece has a number, by which all of it can be seen."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fold:
    number: int
    seq: int  # the record that has all of it
    title: str


class Folds:
    """Of one conversation. Only places in the log are kept: outputs may be large and many."""

    def __init__(self) -> None:
        self._folds: list[Fold] = []
        self._opened = 0  # by the key, counted from the last

    def add(self, seq: int, title: str) -> Fold:
        fold = Fold(len(self._folds) + 1, seq, title)
        self._folds.append(fold)
        self._opened = 0
        return fold

    def find(self, number: int) -> Fold | None:
        return self._folds[number - 1] if 0 < number <= len(self._folds) else None

    def next_to_open(self) -> Fold | None:
        """The last one; asked again, the one before it."""
        if self._opened >= len(self._folds):
            return None
        self._opened += 1
        return self._folds[-self._opened]

    def __len__(self) -> int:
        return len(self._folds)
