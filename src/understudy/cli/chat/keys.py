"""The keys of the line that is being typed."""

from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from understudy.cli.chat.files import completes


class Typist(Protocol):
    """What the keys are for."""

    @property
    def buffer(self) -> Buffer: ...

    @property
    def types(self) -> bool:
        """Keys go to the line, and not to a question."""
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
        typist.buffer.complete_state = None  # what was chosen stays, to go on with

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
