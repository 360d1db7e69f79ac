"""What a model is sent of a conversation: each item, the record it came from, and what a compaction leaves of them.

`prefix` precedes the items in every request. Between two compactions requests only grow at their end, so that a provider can use
its cache: changes of the prefix are added behind the items, and move into the prefix with the next compaction.
"""

import msgspec

from understudy.protocol.items import FunctionCallOutput, InputImage, InputText, Item, Message, OutputText
from understudy.protocol.records import Compacted

_encode = msgspec.json.Encoder().encode


class History:
    def __init__(self) -> None:
        self.prefix: tuple[Message, ...] = ()
        self.context: tuple[Message, ...] = ()  # what the model was last told of the prefix's content
        self.items: list[Item] = []
        self.sources: list[int] = []  # the record that each item came from
        self.steps: list[int] = []  # the request with which each item was first sent, or which it answers
        self.from_users: set[int] = set()  # sources of what people wrote
        self.requests = 0
        self.summed_up_at = 0  # the number of requests at the last summary
        self.summary = ""  # the last summary
        self._may_change_prefix = True

    def begin_request(self, context: tuple[Message, ...], seq: int) -> None:
        self.requests += 1
        if context and (self._may_change_prefix or not self.context):  # a log from elsewhere does not say what came before
            self.prefix = self.context = context
        elif context:
            told, self.context = self.context, context
            for message in context:
                if message not in told:
                    self.add(message, seq)
        self._may_change_prefix = False

    def add(self, item: Item, seq: int) -> None:
        self.items.append(item)
        self.sources.append(seq)
        self.steps.append(self.requests)

    def add_from_user(self, message: Message, seq: int) -> None:
        self.from_users.add(seq)
        self.add(message, seq)

    def size(self) -> int:
        """The size of all items, in bytes of JSON."""
        return sum(map(len, map(_encode, self.items)))

    @property
    def can_be_summed_up(self) -> bool:
        """Whether a model has said anything since the last summary."""
        for item, step in zip(reversed(self.items), reversed(self.steps), strict=True):  # rarely more than a few
            if step > self.summed_up_at and _is_said(item):
                return True
        return False

    def compact(self, record: Compacted, seq: int) -> None:
        kept = set(self.sources if record.kept is None else record.kept)
        limits = {each.seq: each.characters for each in record.shortened}
        before = list(zip(self.items, self.sources, self.steps, strict=True))
        self.items, self.sources, self.steps = [], [], []
        noted = not (record.note or record.summary)
        for item, source, step in before:
            if source not in kept:
                continue
            if not noted and source == record.recent:
                self._add_note(record, seq)
                noted = True
            self.items.append(shortened(item, limits[source]) if source in limits else item)
            self.sources.append(source)
            self.steps.append(step)
        if not noted:
            self._add_note(record, seq)
        self.from_users &= kept
        if record.kind == "summary":
            self.summed_up_at = self.requests
        self.summary = record.summary or self.summary
        self._may_change_prefix = True

    def _add_note(self, record: Compacted, seq: int) -> None:
        text = "\n\n".join(part for part in (record.note, record.summary) if part)
        self.add(Message("user", (InputText(text),)), seq)


def _is_said(item: Item) -> bool:
    """Whether a model said it."""
    return not isinstance(item, FunctionCallOutput) and not (isinstance(item, Message) and item.role != "assistant")


def shortened(item: Item, characters: int) -> Item:
    """The item with at most so many characters of its text, from both ends, with a mark where some are missing."""
    match item:
        case FunctionCallOutput():
            text = shortened_text(item.output, characters, "output") + _without_images(len(item.images), "output")
            return FunctionCallOutput(item.call_id, text)
        case Message():
            text = shortened_text(item.text(), characters, "message") + _without_images(images_in(item), "message")
            return msgspec.structs.replace(item, content=(OutputText(text) if item.role == "assistant" else InputText(text),))
        case _:
            return item


def images_in(item: Item) -> int:
    match item:
        case Message(content=content):
            return sum(isinstance(part, InputImage) for part in content)
        case FunctionCallOutput(images=images):
            return len(images)
        case _:
            return 0


def _without_images(images: int, what: str) -> str:
    return f"\n[{images} image(s) of this {what} were left out to make room]" if images else ""


def shortened_text(text: str, characters: int, what: str) -> str:
    left_out = len(text) - characters
    if left_out <= 0:
        return text
    if characters <= 0:
        return f"[this {what}, {len(text)} characters long, was left out to make room]"
    half = characters // 2
    mark = f"[... {left_out} characters of this {what} were left out to make room ...]"
    return f"{text[: characters - half]}\n{mark}\n{text[len(text) - half :]}"
