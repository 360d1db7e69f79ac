"""The one exception of the library."""


class UnderstudyError(Exception):
    """Something was refused or failed. The text says what to do; `code` is for programs, and is the same as in REST."""

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.code = code
