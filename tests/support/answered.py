"""Values of coroutines that answer at once, for code that is not asynchronous."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def answered(question: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns. It must not suspend: raises `RuntimeError` where it does."""
    try:
        question.send(None)
    except StopIteration as answer:
        return answer.value
    question.close()
    raise RuntimeError(f"{question.__qualname__} has to wait for its answer, and is used where nobody can wait")
