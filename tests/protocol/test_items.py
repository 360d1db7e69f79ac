"""Items as the log keeps them."""

import msgspec
import pytest

from understudy.engine.compaction.limits import IMAGE_TOKENS, tokens_of
from understudy.engine.log.history import shortened
from understudy.protocol.items import FunctionCallOutput

PLAIN = b'{"type":"function_call_output","call_id":"c","output":"x"}'
PIXEL = "data:image/png;base64,AA=="


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (FunctionCallOutput("c", "x"), PLAIN),
        (FunctionCallOutput("c", "x", (PIXEL,)), PLAIN[:-1] + f',"images":["{PIXEL}"]}}'.encode()),
    ],
    ids=["as logs from before images have it", "with an image"],
)
def test_an_output_is_kept_and_read_back(output: FunctionCallOutput, kept: bytes) -> None:
    assert msgspec.json.encode(output) == kept
    assert msgspec.json.decode(kept, type=FunctionCallOutput) == output


def test_an_image_counts_in_a_context_and_goes_first_when_room_is_made() -> None:
    seen = FunctionCallOutput("c", "a picture", (PIXEL, PIXEL))
    assert tokens_of(seen) - tokens_of(FunctionCallOutput("c", "a picture")) == 2 * IMAGE_TOKENS
    assert shortened(seen, 100) == FunctionCallOutput("c", "a picture\n[2 image(s) of this output were left out to make room]")
