"""What a conversation is called in lists."""

from understudy.protocol.items import InputText, Message

TITLE_LENGTH = 80
NO_TITLE = "New conversation"


def title_from(message: Message) -> str:
    text = next((part.text for part in message.content if isinstance(part, InputText) and part.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
