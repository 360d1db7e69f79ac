"""Standard output for prompt_toolkit: several steps reach the terminal in one write, so that nothing flickers."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output


class HeldOutput(Vt100_Output):
    """Asks the terminal nothing: an answer that comes late, over a slow line, would be taken for something typed."""

    def __init__(self) -> None:
        super().__init__(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._holds = False

    @contextmanager
    def held(self) -> Generator[None]:
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
            self.flush()

    def flush(self) -> None:
        if not self._holds:
            super().flush()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 0, 0
    return Size(rows or 24, columns or 80)
