"""`view_image`: what the model is shown, what is recorded, and what it is told where there is nothing to show."""

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.golden_exec.play import PNG
from tests.tools.test_file_tools import Host
from understudy.errors import ToolError
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import ImageViewed
from understudy.tools.calls import ToolOutput
from understudy.tools.registry import OfferConditions, find_tool, offered
from understudy.tools.tool import ToolContext


async def view(host: Host, **arguments: object) -> ToolOutput:
    call = FunctionCall("view_image", json.dumps(arguments), "call1")
    found = find_tool("view_image")
    assert found is not None
    return await found.run(call, ToolContext(cast(Any, host), call))


async def test_an_image_is_shown_and_recorded_whatever_its_name_says(tmp_path: Path) -> None:
    (tmp_path / "dot.txt").write_bytes(PNG)
    (tmp_path / "link").symlink_to("dot.txt")
    host = Host(tmp_path)
    for path in ("dot.txt", "./link", str(tmp_path / "dot.txt")):
        output = await view(host, path=path)
        assert output == ToolOutput("", images=("data:image/png;base64," + base64.b64encode(PNG).decode(),))
    assert host.records == [ImageViewed("call1", str(tmp_path / name)) for name in ("dot.txt", "link", "dot.txt")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "none.png"}, "none.png cannot be read: No such file or directory"),
        ({"path": "text.png"}, "text.png cannot be read: it is no image that models can see: PNG, JPEG, GIF or WebP"),
        ({"path": "."}, "not a regular file"),
        ({"path": "cut.png"}, "damaged"),
        ({"path": ""}, "not a path"),
        ({"path": "a\0b"}, "not a path"),
        ({"path": "\ud800"}, "schema"),
        ({"path": "masked.png"}, "may not be read"),
        ({"path": "/dev/zero"}, "may not be read"),
        ({"path": 1}, "expected a string"),
        ({}, "path"),
    ],
)
async def test_what_cannot_be_shown_is_told_and_not_recorded(tmp_path: Path, arguments: dict[str, Any], reason: str) -> None:
    (tmp_path / "text.png").write_text("not at all")
    (tmp_path / "cut.png").write_bytes(PNG[:12])
    (tmp_path / "masked.png").write_bytes(PNG)
    host = Host(tmp_path, tmp_path / "masked.png")
    with pytest.raises(ToolError, match=reason):
        await view(host, **arguments)
    assert host.records == []


async def test_under_untrusted_it_looks_only_where_a_harmless_command_may(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere.png").write_bytes(PNG)
    with pytest.raises(ToolError, match="under the approval policy `untrusted`"):
        await view(Host(tmp_path / "project", policy="untrusted"), path=str(tmp_path / "elsewhere.png"))


def test_a_model_without_eyes_is_not_offered_it() -> None:
    for eyes in (True, False):
        names = {spec.name for spec in offered(OfferConditions("never", "read-only", True, 60, eyes=eyes))}
        assert ("view_image" in names) is eyes
