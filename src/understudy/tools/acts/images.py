"""Images for a model to look at."""

import os

from understudy.models.images import MOST_BYTES, image_url
from understudy.protocol.encodable import visible
from understudy.protocol.records import ImageViewed
from understudy.tools.acts.files import head, with_file
from understudy.tools.host import ToolHost
from understudy.tools.tool import ToolOutput


async def view_image(host: ToolHost, call_id: str, path: str) -> ToolOutput:
    """Nothing but the image, as the model is shown it. Raises `ToolError`."""
    url = await with_file(host, path, lambda file: image_url(head(file, MOST_BYTES + 1)))
    host.record(ImageViewed(call_id, _absolute(host.settings.cwd, path)))
    return ToolOutput("", images=(url,))


def _absolute(cwd: str, path: str) -> str:
    return visible(os.path.normpath(os.path.join(cwd, path)))
