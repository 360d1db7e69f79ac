"""The record of an image that the model looked at."""

import msgspec


class ImageViewed(msgspec.Struct, frozen=True, gc=False, tag="image_viewed"):
    """The image itself is in the output of the call."""

    call_id: str
    path: str  # absolute, as the model named it
