"""The input line: its keys, its completions, and the history of inputs, without what looks like a secret."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from understudy.cli.chat.actions import Actions, image_urls
from understudy.cli.chat.chat import Chat
from understudy.cli.chat.files import ChatCompleter, Files, completes
from understudy.cli.chat.question_panel import QuestionPanel
from understudy.cli.chat.showing import ShownQuestion
from understudy.cli.chat.typed import Pastes, UnknownSlash, named_images, read_slash
from understudy.errors import AgentError
from understudy.policy.secrets import secret_pattern

AGAIN_SECONDS = 2.0  # within this time, a second Ctrl-C leaves the chat


class Line:
    """Implements `keys.Typist`."""

    def __init__(self, chat: Chat, panel: QuestionPanel, history: History, has_focus: Callable[[], bool]) -> None:
        self._chat = chat
        self._panel = panel
        self._actions = Actions(chat)
        self._has_focus = has_focus
        self._files: dict[str, Files] = {}
        self._pastes = Pastes()
        self._draft = ""  # the input from before a question was refused
        self._ctrl_c_at = float("-inf")
        self._buffer = Buffer(
            multiline=True, completer=ChatCompleter(self._find_files, chat.own_slashes), complete_while_typing=True, history=history
        )

    @property
    def buffer(self) -> Buffer:
        return self._buffer

    @property
    def types(self) -> bool:
        return self._has_focus()

    def hint(self) -> str:
        """Shown instead of the status after a first Ctrl-C: what a second one does. Otherwise empty."""
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
        whole = self._pastes.put_back(text).encode("utf-8", "replace").decode()  # invalid UTF-8 can be typed, too
        try:
            called = read_slash(whole, self._chat.own_commands)
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
                self._set(typed)  # so that it can be corrected
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
        """Clears the line. On an empty line, a second press within two seconds leaves the chat."""
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


class Typist(Protocol):
    """What the keys need."""

    @property
    def buffer(self) -> Buffer: ...

    @property
    def types(self) -> bool:
        """Whether keys go to the line, rather than to a question."""
        ...

    def enter(self, *, queue: bool = False) -> None: ...

    def paste(self, text: str) -> None: ...

    def escape(self) -> None: ...

    def ctrl_c(self) -> None: ...

    def ctrl_d(self) -> None: ...

    def show_folded(self) -> None: ...


def typing_keys(typist: Typist) -> KeyBindings:
    keys = KeyBindings()
    types = Condition(lambda: typist.types)
    offers = Condition(lambda: typist.buffer.complete_state is not None)
    one_chosen = Condition(lambda: (state := typist.buffer.complete_state) is not None and state.current_completion is not None)

    @keys.add("enter", filter=types & ~one_chosen)
    def _(event: KeyPressEvent) -> None:
        typist.buffer.cancel_completion()
        typist.enter()

    @keys.add("enter", filter=types & one_chosen)
    def _(event: KeyPressEvent) -> None:
        typist.buffer.complete_state = None  # keeps the chosen completion

    @keys.add("escape", "enter", filter=types)
    @keys.add("c-j", filter=types)
    def _(event: KeyPressEvent) -> None:
        typist.buffer.insert_text("\n")

    @keys.add("tab", filter=types)
    def _(event: KeyPressEvent) -> None:
        buffer = typist.buffer
        if buffer.complete_state is not None:
            only_one = len(buffer.complete_state.completions) == 1
            buffer.complete_next()
            if only_one:
                buffer.complete_state = None
        elif completes(buffer.document):
            buffer.start_completion(select_first=True)
        else:
            typist.enter(queue=True)

    @keys.add("s-tab", filter=offers)
    def _(event: KeyPressEvent) -> None:
        typist.buffer.complete_previous()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if typist.types:
            typist.paste(event.data)

    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        typist.escape()

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _(event: KeyPressEvent) -> None:
        typist.ctrl_c()

    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        typist.ctrl_d()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        typist.show_folded()

    return keys


MOST_KEPT = 1000  # messages
LONGEST = 20_000  # characters of one
MOST_BYTES = 4 << 20


class ChatHistory(History):
    """If the file cannot be read or written, the chat works without a history."""

    def __init__(self, file: Path | None, secrets: Iterable[str]) -> None:
        """`file`: None to store nothing."""
        super().__init__()
        self._file = file
        self._secret = secret_pattern(secrets)

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = self._read()
        texts: list[str] = []
        for line in reversed(lines):
            try:
                texts.append(msgspec.json.decode(line, type=str))
            except msgspec.MsgspecError:
                continue  # cut off by a crash, or not ours
        if len(lines) > 2 * MOST_KEPT:
            self._write(list(reversed(texts[:MOST_KEPT])))
        return list(dict.fromkeys(texts))[:MOST_KEPT]

    def store_string(self, string: str) -> None:
        if self._file is None or len(string) > LONGEST or self._secret.search(string) or string[:1].isspace():
            return
        string = string.encode("utf-8", "replace").decode()
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self._file, flags, 0o600), "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(msgspec.json.encode(string) + b"\n")
        except OSError:
            return

    def _read(self) -> list[bytes]:
        if self._file is None:
            return []
        try:
            with open(os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - MOST_BYTES))
                return file.read(MOST_BYTES).splitlines()
        except OSError:
            return []

    def _write(self, texts: list[str]) -> None:
        assert self._file is not None
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
                file.writelines(msgspec.json.encode(text) + b"\n" for text in texts)
            os.replace(fresh, self._file)
        except OSError:
            return
