"""Images that the model looks at, in the real program: what the model is sent, what clients see, what is in the log."""

from __future__ import annotations

import base64
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, told_to_model
from tests.e2e.talking import Stream
from tests.golden_exec.play import PNG
from understudy.testing import call, say, status

URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
MODELS = {"chat": "gpt-4o", "responses": "gpt-5.5", "anthropic": "claude-sonnet-5-5"}
NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "read-only"}


@pytest.mark.quick(1)
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


@pytest.mark.slow
async def test_a_later_turn_still_has_the_image(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    script = [call("view_image", path="dot.png"), say("a dot"), say("red")]
    async with scene(script, tmp_path, wire="anthropic", config=NEVER) as (model, client):
        first = await client.codex("look")
        (tmp_path / "dot.png").unlink()
        await client.call_tool("codex-reply", prompt="which colour?", threadId=first["structuredContent"]["threadId"])
    assert base64.b64encode(PNG).decode() in str(model.requests[2]["messages"])


# -- images that callers give


def images_in(request: dict[str, Any]) -> list[str]:
    """Of a Chat request."""
    parts = [part for message in request["messages"] if isinstance(message["content"], list) for part in message["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("spelled", ["images", "Images", "IMAGES"])
async def test_images_go_with_the_prompt_of_a_call_and_of_a_reply(tmp_path: Path, spelled: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "dot.jpg").write_bytes(PNG)
    wrong = URL.replace("image/png", "image/jpeg")
    async with scene([say("one"), say("two"), say("three")], tmp_path, config=NEVER) as (model, client):
        first = await client.call_tool("codex", {"prompt": "look", "cwd": "sub", spelled: ["dot.jpg", wrong]})
        thread = first["structuredContent"]["threadId"]
        await client.call_tool("codex-reply", {"threadId": thread, "prompt": "again", spelled: ["dot.jpg"]})
        plain = await client.call_tool("codex-reply", {"threadId": thread, "prompt": "no more", spelled: []})
    assert images_in(model.requests[0]) == [URL, URL]
    assert images_in(model.requests[1]) == [URL, URL, URL]
    assert plain["structuredContent"]["content"] == "three"


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ("dot.png", "expected a sequence"),
        ([1], "expected a string: a path or a data: URL"),
        (["none.png"], "image none.png cannot be shown to a model: no such file"),
        ([""], "is not a regular file"),
        (["a\0b"], "cannot be shown to a model"),
        (["."], "is not a regular file"),
        (["pipe"], "is not a regular file"),
        (["text.png"], "image text.png cannot be shown to a model: it is no image that models can see: PNG, JPEG, GIF or WebP"),
        (["bomb.png"], "60000 x 60000 pixels"),
        (["huge.png"], "larger than 20 MB"),
        (["data:text/plain,hello"], "write it as data:image/png;base64"),
        (["data:image/png;base64,AAAA"], "no image"),
        ([URL] * 17, "expected 16 at most"),
    ],
)
@pytest.mark.quick(1)
async def test_what_is_no_image_begins_nothing(tmp_path: Path, images: Any, reason: str) -> None:
    (tmp_path / "text.png").write_text("words")
    (tmp_path / "bomb.png").write_bytes(PNG[:16] + struct.pack(">II", 60_000, 60_000) + PNG[24:])
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(1 << 34)
    async with scene([], tmp_path, config=NEVER) as (model, client):
        result = await client.call_tool("codex", {"prompt": "look", "images": images})
        listed = await client.call_tool("conversationsList")
    assert result["isError"] is True
    assert text_of(result).startswith("Failed to parse configuration for Codex tool: ")
    assert reason in text_of(result)
    assert text_of(result).endswith("in `images`")
    assert model.requests == []
    assert listed["structuredContent"]["conversations"] == []


@pytest.mark.slow
async def test_items_of_a_message_have_the_same_bounds(tmp_path: Path) -> None:
    (tmp_path / "dot.jpg").write_bytes(PNG)
    bomb = PNG[:16] + struct.pack(">II", 60_000, 60_000) + PNG[24:]
    (tmp_path / "bomb.png").write_bytes(bomb)
    refused = [
        {"type": "local_image", "path": "bomb.png"},
        {"type": "image", "image_url": "data:image/png;base64," + base64.b64encode(bomb).decode()},
        {"type": "image", "image_url": "data:image/png;base64," + "A" * (6 << 20)},
    ]
    async with scene([say("ok")], tmp_path, config=NEVER) as (model, client):
        made = await client.call_tool("conversationCreate", cwd=str(tmp_path))
        conversation = made["structuredContent"]["conversation_id"]
        for item in refused:
            result = await client.call_tool("conversationSendMessage", conversation_id=conversation, content=[item])
            assert result["structuredContent"]["status"] == "error"
            assert len(result["structuredContent"]["message"]) < 500
        content = [{"type": "local_image", "path": "dot.jpg"}, {"type": "image", "image_url": "https://localhost/x.png"}]
        await client.call_tool("conversationSendMessage", conversation_id=conversation, content=content)
        await Stream(client, conversation, after=0).until("task_complete")
    assert images_in(model.requests[0]) == [URL, "https://localhost/x.png"]


# -- what becomes of them


@pytest.mark.slow
async def test_old_images_are_the_first_to_go_when_the_context_gets_full(tmp_path: Path) -> None:
    """By that alone there is room again: what was said and printed beside them stays, and no summary is asked for."""
    (tmp_path / "dot.png").write_bytes(PNG)
    script = [
        call("view_image", path="dot.png"),
        call("shell", command=["printf", "o%.0s", *map(str, range(400))], call_id="call2"),
        say("seen"),
        say("fine", usage=(3990, 10)),
        say("done"),
    ]
    async with scene(script, tmp_path, config={**NEVER, "model_auto_compact_token_limit": 4000}) as (model, client):
        first = await client.call_tool("codex", prompt="look at this", images=[URL])
        thread = first["structuredContent"]["threadId"]
        await client.call_tool("codex-reply", prompt="and now?", threadId=thread)
        await client.call_tool("codex-reply", prompt="and then?", threadId=thread)
    assert len(model.requests) == 5
    assert images_in(model.requests[3]) == [URL, URL]
    last = model.requests[4]
    assert images_in(last) == []
    told = [message["content"] for message in last["messages"] if message["role"] == "user"]
    assert "look at this\n[1 image(s) of this message were left out to make room]" in told
    assert "[1 image(s) of this output were left out to make room]" in told_to_model(last)
    assert "o" * 400 in told_to_model(last, "call2")


@pytest.mark.slow
async def test_view_image_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    script = [call("view_image", path="dot.png"), say("done")]
    async with scene(script, tmp_path, config={**NEVER, "tools.view_image": False}) as (model, client):
        await client.codex("look")
    first, second = model.requests
    assert "view_image" not in str(first["tools"])
    assert told_to_model(second) == "unsupported call: view_image"


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
async def test_an_image_that_the_provider_refuses_does_not_end_the_conversation(tmp_path: Path, wire: Any) -> None:
    """It would be refused with every request from then on. Those that were taken before stay."""
    (tmp_path / "dot.png").write_bytes(PNG)
    refused = status(400, {"error": {"message": "Could not process image", "type": "invalid_request_error"}})
    script = [
        call("view_image", path="dot.png"),
        call("view_image", call_id="call2", path="dot.png"),
        refused,
        say("one dot"),
        refused,
        say("none"),
        say("fine"),
    ]
    async with scene(script, tmp_path, wire=wire, config={**NEVER, "model": MODELS[wire]}) as (model, client):
        first = await client.codex("look")
        assert text_of(first) == "one dot"
        thread = first["structuredContent"]["threadId"]
        for prompt, answer in (("and now?", "none"), ("go on", "fine")):
            assert text_of(await client.call_tool("codex-reply", prompt=prompt, threadId=thread)) == answer
        told = [event["message"] for event in client.events() if event["type"] == "background_event"]
        assert [one for one in told if "an image is no longer sent, because the provider refused it" in one]
    data = base64.b64encode(PNG).decode()
    assert [str(request).count(data) for request in model.requests] == [0, 1, 2, 1, 1, 0, 0]
    assert "could not use an image" in str(model.requests[3])


@pytest.mark.slow
async def test_a_refusal_that_names_images_is_told_where_there_are_none(tmp_path: Path) -> None:
    script = [status(400, {"error": {"message": "the tool view_image is not known"}})]
    async with scene(script, tmp_path, config=NEVER) as (_, client):
        assert "the tool view_image is not known" in text_of(await client.codex("look"))
