"""The line that is being typed: what Enter, Esc, Ctrl-C and a paste do with it."""

from collections.abc import Callable
from time import monotonic

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import History

from understudy.cli.chat.actions import Actions, image_urls
from understudy.cli.chat.chat import Chat
from understudy.cli.chat.files import ChatCompleter, Files
from understudy.cli.chat.question_panel import QuestionPanel
from understudy.cli.chat.showing import ShownQuestion
from understudy.cli.chat.typed import Pastes, UnknownSlash, named_images, read_slash
from understudy.errors import AgentError

AGAIN_SECONDS = 2.0  # within which a second Ctrl-C leaves


class Line:
    """Implements `keys.Typist`."""

    def __init__(self, chat: Chat, panel: QuestionPanel, history: History, has_focus: Callable[[], bool]) -> None:
        self._chat = chat
        self._panel = panel
        self._actions = Actions(chat)
        self._has_focus = has_focus
        self._files: dict[str, Files] = {}
        self._pastes = Pastes()
        self._draft = ""  # what was typed before a question was refused
        self._ctrl_c_at = float("-inf")
        self._buffer = Buffer(
            multiline=True, completer=ChatCompleter(self._find_files), complete_while_typing=True, history=history
        )

    @property
    def buffer(self) -> Buffer:
        return self._buffer

    @property
    def types(self) -> bool:
        return self._has_focus()

    def hint(self) -> str:
        """Instead of the status."""
        if monotonic() - self._ctrl_c_at > AGAIN_SECONDS:
            return ""
        return "Ctrl-C again leaves" + ("; that interrupts the turn too" if self._chat.works else "")

    # -- sending

    def enter(self, *, queue: bool = False) -> None:
        text = self._buffer.text
        if self._panel.refusing is not None:
            asked = self._panel.refusing
            self.stop_refusing()
            if asked.typed is not None:
                self._chat.begin(lambda: self._chat.answer(asked, self._pastes.put_back(text)))
                return
            self._chat.begin(lambda: self._chat.decide(asked.question.call_id, "denied", self._pastes.put_back(text)))
        elif not text.strip():
            if queue:
                self._panel.call_back()
            else:
                self._chat.send_queued()
        elif text.endswith("\\") and not text.endswith("\\\\"):
            self._set(text[:-1] + "\n")
        else:
            self._take(text, queue=queue)

    def _take(self, text: str, *, queue: bool) -> None:
        whole = self._pastes.put_back(text).encode("utf-8", "replace").decode()  # bytes that are no text can be typed too
        try:
            called = read_slash(whole)
        except UnknownSlash as error:
            self._chat.say(str(error))
            return
        self._buffer.append_to_history()
        self._buffer.reset()
        if called is not None:
            self._actions.carry_out(called)
        else:
            self._chat.begin_line(lambda: self._send(whole, text, queue=queue))

    async def _send(self, whole: str, typed: str, *, queue: bool) -> None:
        try:
            images = [*self._chat.images, *image_urls(named_images(whole, self._chat.handle.facts.cwd), self._chat.handle)]
            if queue and self._chat.works:
                self._chat.queue(whole, images)
            else:
                await self._chat.send(whole, images)
            self._chat.images = []
        except AgentError:
            if not self._buffer.text:
                self._set(typed)  # to be mended
            raise

    def paste(self, text: str) -> None:
        self._buffer.insert_text(self._pastes.take(text))

    # -- a word that goes with a no

    def refuse(self, asked: ShownQuestion) -> None:
        self._panel.refusing = asked
        self._draft = self._buffer.text
        self._buffer.reset()

    def stop_refusing(self) -> None:
        self._panel.refusing = None
        self._panel.call_back()
        self._set(self._draft)
        self._draft = ""

    def _set(self, text: str) -> None:
        self._buffer.text = text
        self._buffer.cursor_position = len(text)

    # -- the other keys

    def escape(self) -> None:
        if self._panel.refusing is not None:
            self.stop_refusing()
        elif self._buffer.complete_state is not None:
            self._buffer.cancel_completion()
        elif self._chat.works:
            self._chat.begin(self._chat.interrupt)

    def ctrl_c(self) -> None:
        """Clears the line; on an empty one, the second within two seconds leaves."""
        if self._panel.refusing is not None:
            self.stop_refusing()
        elif self._buffer.text and self.types:
            self._buffer.reset()
        elif monotonic() - self._ctrl_c_at < AGAIN_SECONDS:
            self._chat.leave()
        else:
            self._ctrl_c_at = monotonic()

    def ctrl_d(self) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self._chat.leave()

    def show_folded(self) -> None:
        self._actions.show_next()

    def _find_files(self) -> Files:
        cwd = self._chat.handle.facts.cwd
        if cwd not in self._files:
            self._files[cwd] = Files(self._chat.handle.setup().config)
        return self._files[cwd]
