"""A coding agent that other programs call. The log is the conversation.

`from understudy import Understudy` is the agent as a library; who only runs the program loads none of it.
"""

TYPE_CHECKING = False  # `typing` is not needed to start the program
if TYPE_CHECKING:
    from understudy.library.agent import Conversation, Question, Result, Understudy
    from understudy.library.errors import UnderstudyError

__version__ = "0.3.0"
__all__ = ["Conversation", "Question", "Result", "Understudy", "UnderstudyError", "__version__"]

_LIBRARY = {
    "Conversation": "understudy.library.agent",
    "Question": "understudy.library.agent",
    "Result": "understudy.library.agent",
    "Understudy": "understudy.library.agent",
    "UnderstudyError": "understudy.library.errors",
}


def __getattr__(name: str) -> object:
    module = _LIBRARY.get(name)
    if module is None:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
