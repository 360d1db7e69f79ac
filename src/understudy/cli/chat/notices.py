"""What is logged while the chat is on: told in it, where it would otherwise be written across the screen."""

import asyncio
import logging

from understudy.cli.chat.chat import Chat


class ToldInChat(logging.Handler):
    def __init__(self, chat: Chat) -> None:
        super().__init__(logging.WARNING)
        self._chat = chat
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """From any thread."""
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        try:
            self._loop.call_soon_threadsafe(self._tell, text)
        except RuntimeError:
            return  # the chat is over

    def _tell(self, text: str) -> None:
        if self._chat.attached:
            self._chat.showing.say(text)
