"""What the system refuses any command, in words that say what to do."""

import os
from collections.abc import Sequence

from understudy.protocol.encodable import is_unicode, visible

FOLDER_GONE = "the folder that this was started in is gone: change to one that is there"


def explain(error: OSError | UnicodeEncodeError, words: Sequence[str]) -> str:
    """`words`: the command line."""
    if isinstance(error, UnicodeEncodeError):  # bytes that are no text, where text is sent or kept
        odd = next((word for word in words if not is_unicode(word)), None)
        what = "a variable, or the name of a file or folder," if odd is None else f"the argument `{visible(odd[:200])}`"
        return f"{what} is not valid UTF-8: check how the terminal or the program that starts us encodes it"
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return FOLDER_GONE
    return error.strerror or str(error)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
