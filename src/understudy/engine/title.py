"""What a conversation is called in lists."""

from understudy.errors import BadRequest
from understudy.protocol.encodable import is_unicode
from understudy.protocol.items import InputText, Message

TITLE_LENGTH = 80  # of one that is made of the first message
LONGEST_TITLE = 200  # that somebody may give
NO_TITLE = "New conversation"


def title_from(message: Message) -> str:
    text = next((part.text for part in message.content if isinstance(part, InputText) and part.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def read_title(text: str) -> str:
    """A title that somebody gives, on one line. Raises `BadRequest`."""
    title = " ".join("".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in text).split())
    if not title:
        raise BadRequest("the title is empty")
    if len(title) > LONGEST_TITLE:
        raise BadRequest(f"the title has {len(title)} characters: at most {LONGEST_TITLE} are allowed")
    if not is_unicode(title):
        raise BadRequest("the title is not text that can be written as UTF-8")
    return title
