"""Runs commands through the sandbox as whoever starts it. Reads one JSON request from stdin, prints one JSON answer.

A program of its own, so that the suite can be run by root and still show what a plain user's server does.
"""

import asyncio
import json
import os
import sys
from typing import Any


async def wait_for_spare(sandbox: Any) -> None:
    """So that the next command gets the cell that is kept ready."""
    async with asyncio.timeout(60):
        while not sandbox.spares:  # noqa: ASYNC110  # nothing tells when it is there
            await asyncio.sleep(0.005)


async def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    sys.path.insert(0, request["library"])
    from understudy.sandbox import Command, Containment, Limits, Sandbox

    arena = {**request["arena"], "server_pid": os.getpid()}
    with open(request["arena_file"], "w") as file:
        json.dump(arena, file)
    sandbox = Sandbox(rung=request["rung"])
    answers: list[dict[str, Any]] = []
    for entry in request["commands"]:
        output = {"stdout": b"", "stderr": b""}

        def keep(stream: str, chunk: bytes, output: dict[str, bytes] = output) -> None:
            output[stream] += chunk

        containment = None
        if entry["containment"] is not None:
            given: dict[str, Any] = entry["containment"]
            lists = ("writable_roots", "masked", "protected")
            fields: dict[str, Any] = {key: tuple(value) if key in lists else value for key, value in given.items()}
            fields["limits"] = Limits(**fields.get("limits", {}))
            containment = Containment(**fields)
        if entry["waiting"]:
            await wait_for_spare(sandbox)
        command = Command(tuple(entry["argv"]), entry["cwd"], entry["env"], entry["timeout"], containment)
        result = await sandbox.run(command, keep)
        ending = {
            "exit_code": result.exit_code,
            "setup_error": result.setup_error,
            "limit": result.limit,
            "exposed": result.exposed,
        }
        answers.append(ending | {stream: text.decode() for stream, text in output.items()})
    await sandbox.close()
    print(json.dumps(answers))


asyncio.run(main())
