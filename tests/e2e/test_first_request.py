"""The first request of a conversation: whoever pays for it by the token wants it short."""

from pathlib import Path

import pytest

from tests.e2e.scenes import names_offered, scene
from understudy.testing import say
from understudy.tools.registry import TOOLS

MOST_BYTES = 18_500  # half of what codex 0.153.4 sends


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
async def test_the_first_request_with_all_tools_is_half_as_long_as_codexs(tmp_path: Path, wire: str) -> None:
    async with scene([say("x")], tmp_path, wire=wire) as (model, client):
        arguments = {"include-plan-tool": True, "approval-policy": "on-request", "sandbox": "workspace-write"}
        await client.call_tool("codex", prompt="Go.", model="a-model-nobody-knows", **arguments)
    [request] = model.received
    assert names_offered(request.body) == {entry.names[0] for entry in TOOLS}
    assert int(request.headers["content-length"]) <= MOST_BYTES
