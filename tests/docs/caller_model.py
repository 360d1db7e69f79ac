"""The model of somebody else's agent: it calls our tool `codex` once, is told the result, and is done. Plain HTTP, no streams."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CALL = {"prompt": "say a word"}


class CallerModel:
    """`requests` holds what it was asked, `url` is its `OPENAI_BASE_URL`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[Any] = []

    def answer(self, path: str, body: Any) -> Any:
        self.requests.append(body)
        return _response(body) if path.endswith("/responses") else _completion(body)

    @property
    def outputs(self) -> str:
        """The outputs of tools in its last request."""
        request = self.requests[-1]
        items = request["input"] if "input" in request else request["messages"]
        return json.dumps([item for item in items if item.get("type") == "function_call_output" or item.get("role") == "tool"])

    @property
    def told(self) -> str:
        """What it was given for its call."""
        return json.dumps(self.requests[-1], ensure_ascii=False)


def _response(body: Any) -> Any:
    called = "function_call_output" in json.dumps(body["input"])
    said: dict[str, Any] = {"type": "output_text", "text": "All done.", "annotations": []}
    output: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}
    if not called:
        output = {"type": "function_call", "id": "f", "call_id": "c", "name": "codex", "arguments": json.dumps(CALL)}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": "r", "object": "response", "created_at": 0, "model": "gpt-5", "status": "completed", "output": [output]}
    return {**whole, "usage": usage, "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}


def _completion(body: Any) -> Any:
    called = any(message["role"] == "tool" for message in body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": "All done."}
    if not called:
        function = {"name": "codex", "arguments": json.dumps(CALL)}
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if called else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "gpt-5", "choices": [choice], "usage": usage}


@contextmanager
def caller_model() -> Generator[CallerModel]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            data = json.dumps(model.answer(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = CallerModel(server.server_port)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
