"""The chat on a terminal that can only write lines (TERM=dumb): reads lines; questions are answered by a letter and Enter."""

import asyncio
import codecs
import os
import sys

from understudy.cli.chat.actions import Actions, image_urls
from understudy.cli.chat.chat import Chat
from understudy.cli.chat.markdown import THEME
from understudy.cli.chat.typed import UnknownSlash, named_images, read_slash
from understudy.cli.tell.terminal import TerminalConsole
from understudy.cli.tell.viewing import HINT, prompt, read_answer


class PlainTerminal:
    """Implements `showing.Face`."""

    has_live_part = False

    def __init__(self) -> None:
        self._console = TerminalConsole(highlight=False, markup=False, emoji=False, theme=THEME)
        self._line = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._asked = ""  # the question whose prompt was printed
        self._prompted = ""  # that prompt

    @property
    def console(self) -> TerminalConsole:
        return self._console

    def changed(self) -> None:
        asked = next((each for each in self._chat.showing.questions.values() if not each.answered), None)
        call_id = asked.question.call_id if asked is not None else ""
        text = "" if asked is None else prompt(self._console.width) if asked.typed is None else asked.typed.prompt()
        if call_id and (call_id, text) != (self._asked, self._prompted):
            self._write(text)
        self._asked, self._prompted = call_id, text

    def open(self, chat: Chat) -> None:
        self._chat = chat
        self._actions = Actions(chat)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._heard)
        try:
            await self._chat.left
        finally:
            loop.remove_reader(sys.stdin.fileno())

    def close(self) -> None:
        """Nothing to do: all is written as it comes."""

    def interrupt(self) -> None:
        """Called on Ctrl-C."""
        if self._chat.works and not self._chat.showing.interrupting:
            self._chat.begin(self._chat.interrupt)
        else:
            self._chat.leave()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _heard(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65536)
        except OSError:
            data = b""
        if not data:
            self._chat.leave()
            return
        *lines, self._line = (self._line + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._take(line)

    def _take(self, line: str) -> None:
        if self._asked:
            self._answer(line)
            return
        if not line.strip():
            return
        try:
            called = read_slash(line, self._chat.own_commands)
        except UnknownSlash as error:
            self._chat.say(str(error))
            return
        if called is not None:
            self._actions.carry_out(called)
        else:
            self._chat.begin_line(lambda: self._send(line))

    async def _send(self, text: str) -> None:
        images = [*self._chat.images, *image_urls(named_images(text, self._chat.handle.facts.cwd), self._chat.handle)]
        self._chat.images = []
        await self._chat.send(text, images)

    def _answer(self, line: str) -> None:
        """A letter or a word that we offer; text after a `no` is passed to the model."""
        asked = self._chat.showing.questions.get(self._asked)
        if asked is not None and asked.typed is not None:
            self._chat.begin(lambda: self._chat.answer(asked, line))
            return
        first, _, rest = line.strip().partition(" ")
        decision = read_answer(line) or (read_answer(first.strip(",:;")) if rest else None)
        if decision is None or (rest and decision != "denied" and read_answer(line) is None):
            self._write(f"{HINT}\n{prompt(self._console.width)}")
            return
        call_id = self._asked
        word = rest if read_answer(line) is None else ""
        self._chat.begin(lambda: self._chat.decide(call_id, decision, word))
