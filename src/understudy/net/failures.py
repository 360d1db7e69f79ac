"""What can go wrong between us and a server, in words for a person.

HttpFailure             anything below
├── Unreachable         no connection could be made
├── AnswerCut           the server closed or broke the connection
├── AnswerSilent        the server sent nothing for too long
└── BadAnswer           what came is not HTTP, or is beyond our limits

No text here holds a credential: addresses are shown without user, password and query.
"""

from typing import Literal


class HttpFailure(Exception):
    def __init__(self, message: str, *, transient: bool = True) -> None:
        super().__init__(message)
        self.transient = transient  # whether repeating the request may help


Why = Literal["refused", "name", "certificate", "date", "tls", "proxy", ""]


class Unreachable(HttpFailure):
    def __init__(self, message: str, *, transient: bool = True, why: Why = "") -> None:
        super().__init__(message, transient=transient)
        self.why: Why = why  # the kind of obstacle, for code that knows a remedy


class AnswerCut(HttpFailure):
    def __init__(self, message: str, *, untouched: bool = False, by_force: bool = False) -> None:
        super().__init__(message)
        self.untouched = untouched  # not one byte of an answer has come
        self.by_force = by_force  # a reset, rather than an orderly end


class AnswerSilent(HttpFailure):
    pass


class BadAnswer(HttpFailure):
    def __init__(self, message: str) -> None:
        super().__init__(message, transient=False)
