"""The scripted model keeps its promises to the tests that rely on it."""

import asyncio
import json
from typing import Any

import pytest

from understudy.testing import HOLD, ScriptedModel, call, cut_after, deltas, hang, reasoning, say, slowly, status


class Connection:
    """A bare HTTP client, so that what is tested is what is on the wire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, model: ScriptedModel) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", model.port))

    async def ask(self, path: str, body: Any = None) -> int:
        """Send a request; the status, once the head of the answer is there."""
        data = json.dumps(body or {}).encode()
        head = f"POST /v1{path} HTTP/1.1\r\nHost: x\r\nX-Test: Yes\r\nContent-Length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        return int(answer.split()[1])

    async def events(self) -> list[Any]:
        """The events up to the end of the stream. Raises `IncompleteReadError` if it breaks."""
        found: list[Any] = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            chunk = await self.reader.readexactly(size + 2)
            data = chunk.decode().rpartition("data: ")[2].strip()
            found.append(data if data == "[DONE]" else json.loads(data))
        await self.reader.readexactly(2)
        return found

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def test_answers_come_in_order_on_one_connection_and_requests_are_kept() -> None:
    async with ScriptedModel(
        [say("one", usage=(3, 4)), call("shell", command=["ls"]), status(429, "slow", {"Retry-After": "1"})]
    ) as model:
        client = await Connection.open(model)
        assert await client.ask("/chat/completions", {"n": 1}) == 200
        said = await client.events()
        assert said[0]["choices"][0]["delta"] == {"content": "one"}
        assert said[-2]["usage"]["total_tokens"] == 7
        assert said[-1] == "[DONE]"
        assert await client.ask("/chat/completions", {"n": 2}) == 200
        called = (await client.events())[0]["choices"][0]["delta"]["tool_calls"][0]
        assert called["function"] == {"name": "shell", "arguments": '{"command": ["ls"]}'}
        assert await client.ask("/chat/completions", {"n": 3}) == 429
        await client.close()
        assert model.requests == [{"n": 1}, {"n": 2}, {"n": 3}]
        assert (model.received[0].path, model.received[0].headers["x-test"]) == ("/v1/chat/completions", "Yes")


async def test_the_same_words_are_spelt_for_the_responses_wire() -> None:
    async with ScriptedModel([reasoning("hm") + deltas(["a", "b"]) + call("shell", call_id="c")]) as model:
        client = await Connection.open(model)
        await client.ask("/responses")
        events = await client.events()
        await client.close()
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "reasoning_summary_text.delta",
        "output_item.done",
        "output_item.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "output_item.done",
        "completed",
    ]


async def test_a_cut_stream_ends_cleanly_or_abruptly_but_never_whole() -> None:
    async with ScriptedModel([cut_after(say("par")), cut_after(say("par"), abruptly=True)]) as model:
        client = await Connection.open(model)
        await client.ask("/chat/completions")
        assert len(await client.events()) == 1
        await client.ask("/chat/completions")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.events()
        await client.close()


async def test_a_held_stream_goes_on_when_released() -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model:
        client = await Connection.open(model)
        await client.ask("/chat/completions")
        await client.reader.readuntil(b'"a"')
        assert model.received[0].outcome == "answering"
        model.release()
        await client.reader.readuntil(b"[DONE]")
        assert await model.outcome(1) == "answered"
        await client.close()


async def test_a_client_that_leaves_is_noticed() -> None:
    async with ScriptedModel([hang()]) as model:
        client = await Connection.open(model)
        waiting = asyncio.create_task(client.ask("/chat/completions"))
        await model.next_request(1)
        waiting.cancel()
        await client.close()
        assert await model.outcome(1) == "dropped"


async def test_killing_it_breaks_streams_and_closes_the_port() -> None:
    async with ScriptedModel([deltas(["a", HOLD])]) as model:
        client = await Connection.open(model)
        await client.ask("/chat/completions")
        await client.reader.readuntil(b'"a"')
        await model.kill()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reader.readuntil(b"[DONE]")
        await client.close()
        with pytest.raises(ConnectionRefusedError):
            await Connection.open(model)


async def test_a_script_that_is_not_used_up_fails() -> None:
    with pytest.raises(AssertionError, match="1 of 1 answers of the model were never asked for"):
        async with ScriptedModel([say("unheard")]):
            pass


async def test_a_request_beyond_the_script_fails() -> None:
    async def ask_too_much() -> None:
        async with ScriptedModel([]) as model:
            client = await Connection.open(model)
            assert await client.ask("/chat/completions") == 400
            await client.close()

    with pytest.raises(AssertionError, match="asked more often than its script has answers"):
        await ask_too_much()


async def test_a_function_answers_by_what_is_asked() -> None:
    async with ScriptedModel(lambda request: say(request.body["word"].upper())) as model:
        client = await Connection.open(model)
        for word in ("a", "b"):
            await client.ask("/chat/completions", {"word": word})
            assert (await client.events())[0]["choices"][0]["delta"] == {"content": word.upper()}
        await client.close()


async def test_a_body_in_chunks_is_read_and_a_connection_is_closed_on_request() -> None:
    async with ScriptedModel([status(404)]) as model:
        client = await Connection.open(model)
        head = b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        client.writer.write(head + b'5\r\n{"a":\r\n3;x=y\r\n 1}\r\n0\r\nTrailer: x\r\n\r\n')
        assert b" 404 " in await client.reader.read()
        await client.close()
        assert model.requests == [{"a": 1}]


@pytest.mark.parametrize(
    "request_", [b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nno!", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\r\n\r\n"]
)
async def test_what_is_no_request_is_refused(request_: bytes) -> None:
    async with ScriptedModel([]) as model:
        client = await Connection.open(model)
        client.writer.write(request_)
        assert b" 400 " in await client.reader.read()
        await client.close()


async def test_words_come_one_by_one_with_pauses() -> None:
    async with ScriptedModel([slowly("one two\n three", pause=0)]) as model:
        client = await Connection.open(model)
        await client.ask("/chat/completions")
        said = [event["choices"][0]["delta"].get("content") for event in (await client.events())[:-2]]
        assert said == ["one ", "two\n ", "three"]
        await client.close()
