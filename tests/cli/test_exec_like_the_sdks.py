"""`exec` as OpenAI's TypeScript SDK starts it: the same words, environment and answers of the provider, and all that it looks at.

Nothing but the command line configures anything: the home is empty, and the provider is the program's own, without a model.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.exec_runs import Exec, Run
from understudy.testing import CodexHome, ScriptedModel, status

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": False}
MODEL = "gpt-6.1-sol"  # what codex 0.169 asks such a provider for
USAGE = {
    "input_tokens": 42,
    "cached_input_tokens": 12,
    "cache_write_input_tokens": 0,
    "output_tokens": 5,
    "reasoning_output_tokens": 0,
}


def answer(text: str = "Hi!", number: int = 1) -> dict[str, Any]:
    """As little as a Responses stream may hold: no deltas, no beginning of the item."""
    usage = {
        "input_tokens": 42,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 5,
        "output_tokens_details": None,
        "total_tokens": 47,
    }
    message = {"type": "message", "role": "assistant", "id": f"item_{number}", "content": [{"type": "output_text", "text": text}]}
    return {
        "events": [
            {"type": "response.created", "response": {"id": f"response_{number}"}},
            {"type": "response.output_item.done", "item": message},
            {"type": "response.completed", "response": {"id": f"response_{number}", "usage": usage}},
        ]
    }


class Sdk:
    """Starts `exec` with the words of the SDK, in its order."""

    def __init__(self, model: ScriptedModel, tmp_path: Path) -> None:
        self.work = tmp_path / "work"
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", self.work], check=True)
        self._exec = Exec(CodexHome(tmp_path / "user" / ".codex"), self.work)
        url = model.url.removesuffix("/v1")
        provider = {"name": "Mock provider for test", "base_url": url, "wire_api": "responses", "supports_websockets": False}
        self._config = {
            "model_provider": "mock",
            **{f"model_providers.mock.{key}": value for key, value in provider.items()},
            "features.plugins": False,
        }

    async def run(
        self,
        prompt: str,
        *words: str,
        config: Mapping[str, Any] | None = None,
        images: Sequence[str] = (),
        thread: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        settings = [f"{key}={json.dumps(value)}" for key, value in {**self._config, **(config or {})}.items()]
        resumed = ["resume", thread] if thread is not None else []
        return await self._exec.run(
            "exec",
            "--experimental-json",
            *[word for setting in settings for word in ("--config", setting)],
            *words,
            *resumed,
            *[word for image in images for word in ("--image", image)],
            stdin=prompt,
            env={"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "codex_sdk_ts", **(env or {})},
        )


def expected(thread: str, text: str) -> list[dict[str, Any]]:
    return [
        {"type": "thread.started", "thread_id": thread},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": USAGE},
    ]


async def test_a_provider_without_a_model_is_asked_for_a_default_and_no_event_tells_of_it(tmp_path: Path) -> None:
    async with ScriptedModel([answer()]) as model:
        run = await Sdk(model, tmp_path).run("Hello, world!")
        request, headers, path = model.requests[0], model.received[0].headers, model.received[0].path
    assert (run.code, run.events) == (0, expected(run.thread, "Hi!")), run.err
    assert (path, request["model"]) == ("/responses", MODEL)
    assert headers["originator"] == "codex_sdk_ts"
    assert request["input"][-1]["content"] == [{"type": "input_text", "text": "Hello, world!"}]
    assert run.err.count("no model is set") == 1
    assert f"asked for {MODEL}" in run.err


@pytest.mark.slow
async def test_a_second_run_has_what_was_said_before(tmp_path: Path) -> None:
    async with ScriptedModel([answer("First response", 1), answer("Second response", 2)]) as model:
        sdk = Sdk(model, tmp_path)
        first = await sdk.run("first input")
        second = await sdk.run("second input", thread=first.thread)
        told = model.requests[1]["input"]
    twice = {key: 2 * count for key, count in USAGE.items()}
    assert second.thread == first.thread
    assert second.events == [*expected(first.thread, "Second response")[:-1], {"type": "turn.completed", "usage": twice}]
    said = [entry["content"][0] for entry in told if entry.get("role") == "assistant"]
    assert said == [{"type": "output_text", "text": "First response"}]
    assert told[-1]["content"] == [{"type": "input_text", "text": "second input"}]
    assert "no model is set" not in second.err, "the conversation has one by now"


OPTIONS: list[list[str]] = [
    ["--model", "gpt-test-1", "--sandbox", "workspace-write"],
    ["--add-dir", "../backend", "--add-dir", "/nowhere/shared"],
    ["--add-dir", "../backend", "--sandbox", "workspace-write"],
    ["--config", 'model_reasoning_effort="high"'],
    ["--config", "sandbox_workspace_write.network_access=true"],
    ["--config", 'web_search="live"'],
    ["--config", 'web_search="cached"'],
    ["--config", 'web_search="disabled"'],
    ["--config", 'approval_policy="on-request"'],
    ["--config", 'approval_policy="never"', "--config", 'approval_policy="on-request"'],
    ["--cd", "elsewhere", "--skip-git-repo-check"],
]


@pytest.mark.quick(2)
@pytest.mark.parametrize("words", OPTIONS)
async def test_every_option_of_a_thread_is_taken(tmp_path: Path, words: list[str]) -> None:
    async with ScriptedModel([answer()]) as model:
        sdk = Sdk(model, tmp_path)
        (sdk.work / "elsewhere").mkdir()
        run = await sdk.run("go", *words)
        asked = model.requests[0]["model"]
    assert (run.code, run.events) == (0, expected(run.thread, "Hi!")), run.err
    assert asked == ("gpt-test-1" if "--model" in words else MODEL)
    assert run.err.count("there is no such folder") == words.count("--add-dir")


async def test_keys_that_nobody_knows_do_not_end_the_run(tmp_path: Path) -> None:
    unknown = {"retry_budget": 3, "tool_rules.allow": ["git status", "git diff"]}
    async with ScriptedModel([answer()]) as model:
        run = await Sdk(model, tmp_path).run("go", config=unknown)
    assert run.code == 0, run.err
    assert (run.types[-1], run.items[-1]["text"]) == ("turn.completed", "Hi!")


@pytest.mark.slow
async def test_keys_of_codex_that_do_nothing_here_are_no_events(tmp_path: Path) -> None:
    """What a user counts on is named on standard error."""
    permission = 'permissions.sdk_test.filesystem={":root"="read","/tmp/codex-sdk-config.env"="write"}'
    idle = {"sandbox_workspace_write.exclude_slash_tmp": True, "service_tier": "fast", "default_permissions": "sdk_test"}
    async with ScriptedModel([answer()]) as model:
        run = await Sdk(model, tmp_path).run("go", "--config", permission, config=idle)
    assert (run.code, run.events) == (0, expected(run.thread, "Hi!")), run.err
    assert "`permissions` in `-c` has no effect: use `sandbox_mode`" in run.err
    assert "exclude_slash_tmp" not in run.err


async def test_an_answer_without_the_form_stands_where_the_provider_gives_no_other(tmp_path: Path) -> None:
    """The form is asked for as codex asks, the model gets one more try, and a provider that fails then takes nothing away."""
    async with ScriptedModel([answer("Structured response"), status(500)]) as model:
        sdk = Sdk(model, tmp_path)
        (sdk.work / "schema.json").write_text(json.dumps(SCHEMA))
        run = await sdk.run("structured", "--output-schema", "schema.json")
        form = model.requests[0]["text"]["format"]
    assert form == {"name": "codex_output_schema", "type": "json_schema", "strict": True, "schema": SCHEMA}
    assert (run.code, run.types[-1]) == (0, "turn.completed"), run.out + run.err
    assert [item["text"] for item in run.items if item["type"] == "agent_message"] == ["Structured response"]
    said = [item["message"] for item in run.items if item["type"] == "error"]
    assert len(said) == 2
    assert "does not fit the output schema" in said[0]
    assert "its answer stands as it is" in said[1]


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["refused", "cut", "silent end"])
async def test_however_the_provider_fails_then_the_answer_stands(tmp_path: Path, failure: str) -> None:
    begun = [{"type": "response.created", "response": {"id": "response_2"}}]
    half = {"type": "response.output_text.delta", "delta": '{"ans'}
    second: dict[str, Any] = {
        "refused": {"status": 400, "body": '{"error": {"message": "no more"}}'},
        "cut": {"events": [*begun, half]},
        "silent end": {"events": begun},
    }[failure]
    async with ScriptedModel([answer("Structured response"), second, answer("later", 3)]) as model:
        sdk = Sdk(model, tmp_path)
        (sdk.work / "schema.json").write_text(json.dumps(SCHEMA))
        run = await sdk.run("structured", "--output-schema", "schema.json", "--output-last-message", "last.txt")
        assert (run.code, run.types[-1]) == (0, "turn.completed"), run.out + run.err
        assert (sdk.work / "last.txt").read_text() == "Structured response"
        again = await sdk.run("go on", thread=run.thread)
    assert again.items[-1]["text"] == "later"


async def test_a_file_that_is_no_image_is_left_out_and_the_others_go_along(tmp_path: Path) -> None:
    from tests.golden_exec.play import PNG

    async with ScriptedModel([answer("Images applied")]) as model:
        sdk = Sdk(model, tmp_path)
        (sdk.work / "first.png").write_text("image-0")
        (sdk.work / "dot.png").write_bytes(PNG)
        (sdk.work / "second.jpg").write_text("image-1")
        run = await sdk.run("describe the images", images=["first.png", "dot.png", "second.jpg"])
        content = cast(list[dict[str, Any]], model.requests[0]["input"][-1]["content"])
    assert (run.code, run.events) == (0, expected(run.thread, "Images applied")), run.err
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_text", "input_text"]
    assert content[-1]["text"] == "describe the images"
    for part, name in ((content[0], "first.png"), (content[2], "second.jpg")):
        assert part["text"].startswith(f"[The image {name} is left out: ")
        assert f"image {name} is left out" in run.err


@pytest.mark.slow
async def test_outside_a_repository_the_refusal_has_the_words_that_programs_look_for(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        sdk = Sdk(model, tmp_path)
        (tmp_path / "plain").mkdir()
        run = await sdk.run("go", "--cd", str(tmp_path / "plain"))
    assert (run.code, run.out) == (1, "")
    assert "Not inside a trusted directory" in run.err


@pytest.mark.slow
async def test_a_stream_of_errors_fails_in_the_words_that_programs_look_for(tmp_path: Path) -> None:
    begun = {"type": "response.created", "response": {"id": "response_1"}}
    error = {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "rate limit exceeded"}}
    async with ScriptedModel([{"events": [begun]}, {"events": [error]}, {"events": [error]}]) as model:
        run = await Sdk(model, tmp_path).run("fail", config={"model_providers.mock.stream_max_retries": 2})
    assert (run.code, run.types[-1]) == (1, "turn.failed")
    assert run.failure.startswith("stream disconnected before completion:")
