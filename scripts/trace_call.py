"""The way of one `codex` call through our files: `python scripts/trace_call.py [--calls] [--crossings] [--python OTHER]`.

It starts the real server in a new process under `sys.setprofile`, makes one call that a model on loopback answers with one message,
and prints the files in the order in which the call first uses them, gathered by folder.

A *change of folder* is counted whenever the next file that is new to the call is in another folder than the one before it: somebody
who reads along, opening each file when it is first needed, changes folder that often. It is counted from the start of the process
to the answer of the call. What other threads do is one stretch of its own: going there and coming back are two changes. Left out
are code that runs while a module is imported, and `protocol` and `errors.py`, which only name things. The order varies with
the timing of disk and model, and timers may come in between, so the shortest way of several runs is shown.

A *crossing* is a pair of files in different folders of which the first calls the second, however often.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

RUNS = 7
WAIT_SECONDS = 60
VOCABULARY = ("protocol", "errors.py")
CONFIG = """
model = "m"
model_provider = "p"
[model_providers.p]
name = "p"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
"""
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "trace", "version": "0"}}


class Call(NamedTuple):
    """One function called, and from which file."""

    on_loop: bool  # on the thread of the event loop
    file: str  # within the package
    function: str
    caller: str | None  # None: the event loop, or another function that is not ours


class Way(NamedTuple):
    calls: tuple[Call, ...]

    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.file for call in self.calls if call.on_loop))

    def files_of_other_threads(self) -> tuple[str, ...]:
        return tuple({call.file: None for call in self.calls}.keys() - set(self.files()))

    def stretches(self) -> list[list[str]]:
        """The files in order of first use, cut where the folder changes."""
        found: list[list[str]] = []
        for file in self.files():
            if not found or folder(found[-1][-1]) != folder(file):
                found.append([])
            found[-1].append(file)
        return found

    def changes(self) -> int:
        return len(self.stretches()) - 1 + (2 if self.files_of_other_threads() else 0)

    def crossings(self) -> list[tuple[str, str]]:
        pairs = ((call.caller, call.file) for call in self.calls if call.caller and folder(call.caller) not in VOCABULARY)
        return list(dict.fromkeys(pair for pair in pairs if folder(pair[0]) != folder(pair[1])))


def folder(file: str) -> str:
    return file.partition("/")[0]


def trace(python: str) -> Way:
    with tempfile.TemporaryDirectory(prefix="trace-") as place, _model() as model:
        home, result = Path(place), Path(place) / "calls"
        (home / "config.toml").write_text(CONFIG.format(port=model.getsockname()[1]))
        env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()} | {"CODEX_HOME": place}
        command = [python, str(Path(__file__).resolve()), "--serve", str(result)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place, env=env)
        ender = threading.Timer(WAIT_SECONDS, server.kill)  # every wait below ends with the process
        ender.start()
        try:
            _ask(server, 1, "initialize", HELLO)
            answered = _ask(server, 2, "tools/call", {"name": "codex", "arguments": {"prompt": "hello"}})
            server.communicate()
        finally:
            ender.cancel()
            server.kill()
            server.wait()
        return Way(tuple(Call(*call) for at, *call in json.loads(result.read_text()) if at <= answered))


def _ask(server: "subprocess.Popen[bytes]", number: int, method: str, params: dict[str, Any]) -> int:
    """When its answer was read, on the clock of `time.monotonic_ns`, which all processes share."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            if "error" in message or message["result"].get("isError"):
                raise SystemExit(f"trace_call: the call failed: {line.decode()}")
            return time.monotonic_ns()
    raise SystemExit("trace_call: the server ended without an answer")


def _model() -> socket.socket:
    """Answers every request with one message, on a thread, until it is closed."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "do"},
        {"type": "response.output_text.delta", "delta": "ne"},
        {"type": "response.output_item.done", "item": said},
        {
            "type": "response.completed",
            "response": {"id": "r", "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}},
        },
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                peer, _ = listener.accept()
                with peer:
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += peer.recv(65536)
                    head, _, got = head.partition(b"\r\n\r\n")
                    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
                    while len(got) < length:
                        got += peer.recv(65536)
                    peer.sendall(answer)
        except OSError:
            return  # closed

    threading.Thread(target=serve, daemon=True).start()
    return listener


def serve_traced(result: str) -> int:
    """The server of this interpreter's `understudy`, until its input ends; what it called, and when, goes to `result`."""
    import understudy

    root = str(Path(understudy.__file__).parent) + os.sep
    stacks: dict[int, list[tuple[str, bool]]] = {}  # by thread: file, and whether it runs while a module is imported
    calls: list[tuple[int, bool, str, str, str | None]] = []
    loop = threading.get_ident()

    def note(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(root):
            return
        thread = threading.get_ident()
        stack = stacks.setdefault(thread, [])
        if event == "return":
            if stack:
                stack.pop()
            return
        file = code.co_filename[len(root) :]
        caller, importing = stack[-1] if stack else (None, False)
        importing = importing or code.co_name == "<module>"
        stack.append((file, importing))
        if not importing and folder(file) not in VOCABULARY:
            back = frame.f_back
            ours = back is not None and back.f_code.co_filename.startswith(root)
            calls.append((time.monotonic_ns(), thread == loop, file, code.co_qualname, caller if ours else None))

    sys.argv = ["understudy", "mcp-server"]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from understudy.cli.main import main

        return main() or 0
    finally:
        sys.setprofile(None)
        Path(result).write_text(json.dumps(calls))


def told(way: Way, *, with_calls: bool) -> str:
    lines: list[str] = []
    functions: dict[str, dict[str, None]] = {}
    for call in way.calls:
        functions.setdefault(call.file, {})[call.function] = None
    for number, stretch in enumerate(way.stretches()):
        name = folder(stretch[0])
        lines.append(f"{number:3}  {name:9} " + ", ".join(file.removeprefix(f"{name}/") for file in stretch))
        if with_calls:
            lines += [f"{'':15}{file}: {', '.join(functions[file])}" for file in stretch]
    lines += ["", f"only on other threads: {', '.join(sorted(way.files_of_other_threads())) or 'nothing'}"]
    count = sum(map(len, functions.values()))
    lines.append(f"{way.changes()} changes of folder; {len(way.crossings())} crossings; {len(functions)} files, {count} functions")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the way of one codex call through our files")
    parser.add_argument("--calls", action="store_true", help="name the functions too")
    parser.add_argument("--crossings", action="store_true", help="name the pairs of files that call across folders")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of another build")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        return serve_traced(given.serve)
    way = min((trace(given.python) for _ in range(RUNS)), key=Way.changes)
    print(told(way, with_calls=given.calls))
    if given.crossings:
        print("\n".join(f"  {caller} -> {file}" for caller, file in way.crossings()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
