"""Whatever a client sends, every request is answered once, nothing is taken for something else, and the server lives on."""

from __future__ import annotations

from typing import Any

from tests.security.house import UNTRUSTED, besieged, house
from understudy.testing import HOLD, call, deltas, say

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = "1" + "0" * 400
UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"
PARSE_ERROR, INVALID_REQUEST, NOT_FOUND = -32700, -32600, -32601


def tool(request_id: object, name: str, arguments: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}'


# A line, and what answers it: the id and the code of an error, or `isError` for the result of a tool; None for no answer.
LINES: dict[str, tuple[str, Any]] = {
    "a deep argument": (tool(100, "codex", f'{{"prompt":{DEEP}}}'), (100, PARSE_ERROR)),
    "a deep configuration": (tool(101, "codex", f'{{"prompt":"x","config":{{"a":{DEEP}}}}}'), (101, PARSE_ERROR)),
    "a deep cancellation": (f'{{"method":"notifications/cancelled","params":{{"requestId":{DEEP}}}}}', (None, PARSE_ERROR)),
    "a deep answer to nothing": (f'{{"id":4711,"result":{DEEP}}}', (None, PARSE_ERROR)),
    "a huge limit": (tool(102, "conversationsList", f'{{"limit":{HUGE}}}'), (102, True)),
    "a huge cursor": (tool(103, "conversationStream", f'{{"conversation_id":"{UNKNOWN}","after":{HUGE}}}'), (103, True)),
    "a huge id": (tool(HUGE, "codex", '{"prompt":"x"}'), (None, INVALID_REQUEST)),
    "a fraction for an id": (tool(1.5, "codex", '{"prompt":"x"}'), (None, INVALID_REQUEST)),
    "half a character": (tool(104, "codex", '{"prompt":"\\ud800"}'), (104, PARSE_ERROR)),
    "no number": (tool(105, "conversationsList", '{"limit":NaN}'), (105, PARSE_ERROR)),
    "a configuration too deep to walk": (
        tool(114, "codex", f'{{"prompt":"x","config":{{"a":{"[" * 300 + "]" * 300}}}}}'),
        (114, True),
    ),
    "a huge number in a configuration": (tool(115, "codex", f'{{"prompt":"x","config":{{"a":{HUGE}}}}}'), (115, True)),
    "another, by the other door": (tool(116, "conversationCreate", f'{{"config":{{"a":[{HUGE}]}}}}'), (116, True)),
    "a huge number in a message": (
        tool(117, "conversationSendMessage", f'{{"conversation_id":"{UNKNOWN}","content":[{{"type":"text","text":{HUGE}}}]}}'),
        (117, True),
    ),
    "a huge progress token": (
        f'{{"id":118,"method":"tools/call","params":{{"name":"codex","arguments":{{}},"_meta":{{"progressToken":{HUGE}}}}}}}',
        (118, -32602),
    ),
    "NUL in the folder": (tool(106, "codex", '{"prompt":"x","cwd":"a\\u0000b"}'), (106, True)),
    "NUL in the session": (tool(107, "codex-reply", '{"prompt":"x","threadId":"a\\u0000b"}'), (107, True)),
    "NUL in the method": ('{"id":108,"method":"tools/call\\u0000"}', (108, NOT_FOUND)),
    "a key twice": ('{"id":109,"method":"no/such","method":"ping"}', (109, None)),
    "a batch": ('[{"id":110,"method":"ping"}]', (None, INVALID_REQUEST)),
    "a request of a later era": ('{"id":111,"method":"server/discover","params":{}}', (111, NOT_FOUND)),
    "a mark of a later era": (
        '{"id":112,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
        (112, None),
    ),
    "an answer to nothing": ('{"id":4711,"result":{"decision":"approved"}}', None),
    "an error to nothing": ('{"id":4711,"error":{"code":1,"message":"x"}}', None),
    "a cancellation of nothing": ('{"method":"notifications/cancelled","params":{"requestId":4711}}', None),
    "a cancellation of the future": ('{"method":"notifications/cancelled","params":{"requestId":113}}', None),
    "the future": ('{"id":113,"method":"ping"}', (113, None)),
}

PINGS = (109, 112, 113)  # a ping may be taken before what came before it


def outcome(frame: dict[str, Any]) -> tuple[Any, Any]:
    if "error" in frame:
        return frame["id"], frame["error"]["code"]
    return frame["id"], frame["result"].get("isError")


async def test_n7_n8_every_odd_line_has_its_answer_and_does_nothing_else() -> None:
    with house() as place:
        script = [call("shell", command=["touch", "made"]), say("done")]
        async with besieged(script, place, UNTRUSTED, check_frames=False) as (_, client):
            turn = client.call_tool("codex", prompt="go")
            question = await client.next_request()
            start = len(client.frames)
            await client.send_raw("".join(f"{line}\n" for line, _ in LINES.values()).encode())
            await client.request("tools/list", request_id="the last")
            answers = [outcome(frame) for frame in client.frames[start:] if "method" not in frame]
            expected = [*(wanted for _, wanted in LINES.values() if wanted), ("the last", None)]
            assert [each for each in answers if each[0] not in PINGS] == [each for each in expected if each[0] not in PINGS]
            assert sorted(each for each in answers if each[0] in PINGS) == [(ping, None) for ping in PINGS]
            assert not turn.done
            await client.respond(question, {"action": "decline"})
            await turn
            assert client.stderr == ""
        assert not (place.project / "made").exists()


async def test_n7_an_id_that_is_used_twice_at_once_has_two_answers() -> None:
    with house() as place:
        async with besieged([deltas(["a", HOLD]), deltas(["b", HOLD])], place, check_frames=False) as (model, client):
            for prompt in ("one", "two"):
                client.request("tools/call", {"name": "codex", "arguments": {"prompt": prompt}}, request_id=7)
            await model.next_request(2)
            model.release()
            await client.wait_for_frame(lambda _: _answers(client.frames, 7) == 2, "two answers to request 7")
            texts = [frame["result"]["content"][0]["text"] for frame in client.frames if frame.get("id") == 7]
            assert sorted(texts) == ["a", "b"]


def _answers(frames: list[dict[str, Any]], request_id: int) -> int:
    return sum("method" not in frame and frame.get("id") == request_id for frame in frames)
