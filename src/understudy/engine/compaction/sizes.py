"""How much of a context something takes, estimated: four bytes to a token. Only a provider can count them."""

from collections.abc import Iterable

from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputImage, Item, Message, Reasoning

BYTES_PER_TOKEN = 4
ITEM_TOKENS = 8  # what surrounds an item's text
IMAGE_TOKENS = 1500


def tokens_of(item: Item) -> int:
    match item:
        case Message(content=content):
            images = sum(isinstance(part, InputImage) for part in content)
            return ITEM_TOKENS + images * IMAGE_TOKENS + text_tokens(item.text())
        case Reasoning(summary=summary, content=content, encrypted_content=sealed):
            texts = (*(part.text for part in summary), *(part.text for part in content or ()), sealed or "")
            return ITEM_TOKENS + sum(map(text_tokens, texts))
        case FunctionCall(name=name, arguments=arguments):
            return 2 * ITEM_TOKENS + text_tokens(name) + text_tokens(arguments)
        case FunctionCallOutput():
            return 2 * ITEM_TOKENS + output_tokens(item)


def output_tokens(item: FunctionCallOutput) -> int:
    return text_tokens(item.output) + len(item.images) * IMAGE_TOKENS


def text_tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def all_tokens(items: Iterable[Item]) -> int:
    return sum(map(tokens_of, items))
