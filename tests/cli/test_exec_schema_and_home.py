"""`understudy exec`: the form of the answer, the file for it, keys and addresses as the SDKs pass them, and what is not kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_runs import place
from understudy import __version__
from understudy.testing import ScriptedModel, call, say

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": False}
FITS = '{"answer": "yes"}'


async def test_an_answer_in_form_is_bare_json_also_where_the_model_fences_it(tmp_path: Path) -> None:
    async with ScriptedModel([say(f"```json\n{FITS}\n```")]) as model:
        where = place(model, tmp_path)
        (where.cwd / "s.json").write_text(json.dumps(SCHEMA))
        run = await where.json("--output-schema", "s.json", "-o", "last.json", "go")
        form: Any = model.requests[0]["text"]["format"]
    assert run.code == 0, run.out + run.err
    assert json.loads(run.items[-1]["text"]) == {"answer": "yes"}
    assert json.loads((where.cwd / "last.json").read_text()) == {"answer": "yes"}
    assert (form["type"], form["schema"]) == ("json_schema", SCHEMA)


@pytest.mark.slow
async def test_an_answer_that_never_fits_fails_the_turn_and_leaves_the_file_alone(tmp_path: Path) -> None:
    async with ScriptedModel([say("no"), say("no!")]) as model:
        where = place(model, tmp_path)
        (where.cwd / "s.json").write_text(json.dumps(SCHEMA))
        (where.cwd / "last.json").write_text("from before")
        run = await where.json("--output-schema", "s.json", "-o", "last.json", "go")
    assert run.code == 1
    assert run.types[-2:] == ["error", "turn.failed"]
    assert "does not fit the output schema" in run.failure
    assert (where.cwd / "last.json").read_text() == "from before"


@pytest.mark.slow
async def test_what_is_no_schema_is_refused_before_anything_begins(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        where = place(model, tmp_path)
        cases = {"array.json": "[1]", "broken.json": "{oops", "odd.json": '{"type": "nonsense"}'}
        for name, text in cases.items():
            (where.cwd / name).write_text(text)
            run = await where.json("--output-schema", name, "go")
            assert (run.code, run.out) == (1, ""), name
            assert name in run.err
        (where.cwd / "large.json").write_bytes(b" " * (1 << 21))
        for name, why in {"large.json": "larger than", "/dev/zero": "belongs to the kernel"}.items():
            run = await where.json("--output-schema", name, "go")
            assert (run.code, run.out, why in run.err) == (1, "", True)
        run = await where.json("--output-schema", "none.json", "go")
        assert (run.code, run.out, "none.json" in run.err) == (1, "", True)


@pytest.mark.slow
async def test_key_and_address_of_the_sdks_are_used(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two"), say("three")]) as model:
        where = place(model, tmp_path)
        (where.home.path / "config.toml").write_text('model = "gpt-5.5"\n')
        both = {"OPENAI_BASE_URL": model.url, "CODEX_API_KEY": "key-of-codex", "OPENAI_API_KEY": "key-of-openai"}
        await where.json("go", env={**both, "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "codex_sdk_ts"})
        await where.json("go", env={"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "key-of-openai"})
        elsewhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "CODEX_API_KEY": "key-of-codex"}
        await where.json("-c", f'openai_base_url="{model.url}"', "go", env=elsewhere)
        headers = [received.headers for received in model.received]
    assert [each["authorization"] for each in headers] == ["Bearer key-of-codex", "Bearer key-of-openai", "Bearer key-of-codex"]
    assert headers[0]["originator"] == "codex_sdk_ts"


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("codex_sdk_ts", "codex_sdk_ts"),
        ("my own/2", "my own/2"),
        ("", "understudy"),
        ("a\nX-Evil: 1", "understudy"),
        (" ", "understudy"),
    ],
)
async def test_the_program_that_starts_it_is_named_in_both_headers(tmp_path: Path, named: str, told: str) -> None:
    async with ScriptedModel([say("one")]) as model:
        run = await place(model, tmp_path).json("go", env={"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": named})
        headers = model.received[0].headers
    assert run.code == 0, run.err
    assert (headers["originator"], headers["user-agent"]) == (told, f"{told}/{__version__}")
    assert "x-evil" not in headers


@pytest.mark.slow
async def test_an_ephemeral_run_is_not_kept_and_an_ephemeral_turn_is_not_added(tmp_path: Path) -> None:
    async with ScriptedModel([say("gone"), say("kept"), say("not added"), say("end")]) as model:
        where = place(model, tmp_path)
        gone = await where.json("--ephemeral", "first")
        assert gone.code == 0
        assert (await where.json("resume", gone.thread, "again")).code == 1
        kept = await where.json("second")
        aside = await where.json("resume", "--ephemeral", kept.thread, "aside")
        assert (aside.code, aside.thread, aside.items[-1]["text"]) == (0, kept.thread, "not added")
        await where.json("resume", "--last", "third")
        said = [part["text"] for entry in model.requests[3]["input"] for part in entry.get("content", [])]
    assert [text for text in said if text in ("second", "kept", "aside", "not added", "third")] == ["second", "kept", "third"]


async def test_a_budget_that_is_used_up_fails_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel([call("shell", command=["true"])]) as model:
        where = place(model, tmp_path)
        run = await where.json("--budget", "requests=1", "--budget", "tokens=100_000,seconds=60", "go")
        assert run.code == 1
        assert run.types[-1] == "turn.failed"
        assert "requests" in run.failure
        refused = await where.json("--budget", "tokens=none", "go")
    assert (refused.code, refused.out) == (2, "")
    assert "tokens=none" in refused.err
