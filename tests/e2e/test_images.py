"""Images that the model looks at, in the real program: what the model is sent, what clients see, what is in the log."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, told_to_model
from tests.golden_exec.play import PNG
from understudy.testing import call, say

URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "read-only"}


@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_the_model_sees_the_image_and_clients_that_it_looks(tmp_path: Path, wire: str) -> None:
    (tmp_path / "a dot.png").write_bytes(PNG)
    script = [call("view_image", path="a dot.png"), call("view_image", call_id="call2", path="none.png"), say("a dot")]
    async with scene(script, tmp_path, wire="responses", config={**NEVER, "understudy.wire": wire}) as (model, client):
        await client.codex("look")
        shown = [event for event in client.events() if event["type"] in ("view_image_tool_call", "background_event")]
    outputs = [item["output"] for item in model.requests[2]["input"] if item.get("type") == "function_call_output"]
    assert outputs == [[{"type": "input_image", "image_url": URL}], "none.png cannot be read: No such file or directory"]
    if wire == "modern":
        path = "file://" + str(tmp_path / "a%20dot.png")
        assert shown == [{"type": "view_image_tool_call", "call_id": "call1", "path": path}]
    else:
        assert shown == [{"type": "background_event", "message": f"looks at the image {tmp_path / 'a dot.png'}"}]


async def test_a_model_without_eyes_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    script = [call("view_image", path="dot.png"), say("done")]
    async with scene(script, tmp_path, config=NEVER) as (model, client):
        await client.call_tool("codex", prompt="look", model="gpt-3.5-turbo")
    first, second = model.requests
    assert "view_image" not in str(first["tools"])
    assert told_to_model(second) == "(an image stood here; this model does not see images)"
    assert "base64" not in str(second)


async def test_a_later_turn_still_has_the_image(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    script = [call("view_image", path="dot.png"), say("a dot"), say("red")]
    async with scene(script, tmp_path, wire="anthropic", config=NEVER) as (model, client):
        first = await client.codex("look")
        (tmp_path / "dot.png").unlink()
        await client.call_tool("codex-reply", prompt="which colour?", threadId=first["structuredContent"]["threadId"])
    assert base64.b64encode(PNG).decode() in str(model.requests[2]["messages"])
