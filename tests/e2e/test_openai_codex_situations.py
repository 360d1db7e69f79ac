"""What OpenAI's tests of its Python SDK do with a `codex app-server`, done with ours, and the same answers expected.

Left out of them: goals and the login by ChatGPT's tokens, which are not offered; a last message without any text, of which no item
tells; and a skill of a folder that nobody trusted, which counts only once its user trusts it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import run_python_client
from tests.e2e.test_clients_exec import task_in
from tests.support.environments import python_with
from understudy.testing import ScriptedModel, provider_settings, write_config
from understudy.testing.model import ReceivedRequest

pytestmark = pytest.mark.slow

Json = dict[str, Any]
MOST = 0.15  # seconds between two events that come slowly


def message(text: str, number: int = 1, **more: str) -> Json:
    item = {
        "type": "message",
        "role": "assistant",
        "id": f"msg-{number}",
        "content": [{"type": "output_text", "text": text}],
        **more,
    }
    return {"type": "response.output_item.done", "item": item}


def answer(*events: Json | float, usage: tuple[int, int, int, int] = (1, 0, 1, 0)) -> Json:
    given, cached, produced, thought = usage
    counts = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached} if cached else None,
        "output_tokens": produced,
        "output_tokens_details": {"reasoning_tokens": thought} if thought else None,
        "total_tokens": given + produced,
    }
    begun = {"type": "response.created", "response": {"id": "resp"}}
    return {"events": [begun, *events, {"type": "response.completed", "response": {"id": "resp", "usage": counts}}]}


def streamed(*pieces: str, slowly: bool = False) -> Json:
    added: Json = {
        "type": "response.output_item.added",
        "item": {"type": "message", "role": "assistant", "id": "msg-1", "content": []},
    }
    events: list[Json | float] = [added]
    for piece in pieces:
        events += [{"type": "response.output_text.delta", "delta": piece}, *([MOST] if slowly else [])]
    return answer(*events, message("".join(pieces)))


def reply(request: ReceivedRequest) -> Json:
    body = request.body
    texts = [part for entry in body["input"] if entry.get("role") == "user" for part in entry["content"]]
    last = [part["text"] for part in texts if part["type"] == "input_text"]
    match next((text for text in reversed(last) if not text.startswith("<skill>")), ""):
        case "use overrides":
            return answer(message(f"overrides applied by {body['model']}"), usage=(11, 3, 7, 5))
        case "last unknown phase wins":
            return answer(message("First message", 1), message("Second message", 2))
        case "commentary only":
            return answer(message("Commentary", phase="commentary"))
        case "final before commentary":
            return answer(message("Final answer", 1, phase="final_answer"), message("Commentary", 2, phase="commentary"))
        case "trigger failure":
            error = {"code": "server_error", "message": "boom from mock model"}
            failed = {"type": "response.failed", "response": {"id": "resp", "error": error}}
            return {"events": [{"type": "response.created", "response": {"id": "resp"}}, failed]}
        case "stream please":
            return streamed("he", "llo")
        case "complete this turn":
            return answer(message("turn complete"))
        case "one slowly" | "two slowly" as which:
            return streamed(f"{which[:3]}-", "done", slowly=True)
        case "steer me slowly":
            return streamed("before ", "steer", slowly=True)
        case "Use this steering input.":
            return answer(message("after steer"))
        case "interrupt me slowly":
            return streamed(*["still running "] * 200, slowly=True)
        case "Describe the image.":
            [image] = [part["image_url"] for part in texts if part["type"] == "input_image"]
            return answer(message(f"an image of {image[:22]}"))
        case _ if any(text.startswith("<skill>") for text in last):
            lines = last[-1].splitlines()
            return answer(message(" ".join([*lines[1:3], next(line for line in lines if "cobalt" in line)])))
        case _:
            return answer(message("Hello from the mock."))


async def test_the_situations_of_the_python_package(tmp_path: Path) -> None:
    async with ScriptedModel(reply) as model:
        task = task_in(tmp_path, model.url)
        home = Path(task["env"]["CODEX_HOME"])
        settings = provider_settings(model.url, "responses") | {"sandbox_mode": "read-only"}
        write_config(home / "config.toml", settings)
        skill = home / "skills" / "demo" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: demo\ndescription: demo skill\n---\n\nUse the word cobalt.\n")
        task["skill"] = str(skill)
        task["env"] |= {"PATH": os.defpath, "CODEX_APP_SERVER_DISABLE_MANAGED_CONFIG": "1", "RUST_LOG": "warn"}
        seen = await run_python_client(python_with("openai-codex==0.163.0"), "openai_codex_situations.py", task)
    assert {name: problem for name, problem in seen.items() if problem} == {}, json.dumps(seen, indent=1)
    assert len(seen) == 27
