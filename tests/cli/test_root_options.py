"""Options before the command, as they are written for codex: obeyed where they can be, and never a reason not to start."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_runs import place
from tests.cli.program import Program
from understudy.cli.commands import place_behind
from understudy.testing import McpProcess, ScriptedModel, say

# an option as codex has it, a value, and the setting that it becomes
OPTIONS: list[tuple[str, str | None, str | None]] = [
    ("-c", "a.b=1", "a.b=1"),
    ("--config", 'model="x y"', 'model="x y"'),
    ("-m", "gpt 5", 'model="gpt 5"'),
    ("--model", "m=1", 'model="m=1"'),
    ("-s", "read-only", 'sandbox_mode="read-only"'),
    ("--sandbox", "workspace-write", 'sandbox_mode="workspace-write"'),
    ("-a", "never", 'approval_policy="never"'),
    ("--ask-for-approval", "on-request", 'approval_policy="on-request"'),
    ("-p", "work", 'profile="work"'),
    ("--profile", "work", 'profile="work"'),
    ("--oss", None, 'model_provider="oss"'),
    ("--local-provider", "lmstudio", 'model_provider="lmstudio"'),
    ("-C", ".", None),
    ("--cd", ".", None),
    ("-i", "a.png", None),
    ("--image", "a.png", None),
    ("--add-dir", "/data", None),
    ("--enable", "unified_exec", None),
    ("--disable", "plugins", None),
    ("--strict-config", None, None),
    ("--search", None, None),
    ("--approve-for-me", None, None),
    ("--dangerously-bypass-hook-trust", None, None),
    ("--no-alt-screen", None, None),
    ("--no-daemon", None, None),
]


Given = tuple[list[str], str | None]  # words, and the setting that they become


def spellings(name: str, value: str | None) -> list[list[str]]:
    if value is None:
        return [[name]]
    joined = [f"{name}={value}"] if name.startswith("--") else [f"{name}{value}", f"{name}={value}"]
    return [[name, value], *([word] for word in joined)]


def test_each_option_in_each_spelling_alone_and_in_pairs_leads_to_the_command() -> None:
    every: list[Given] = [(words, setting) for name, value, setting in OPTIONS for words in spellings(name, value)]
    nothing: Given = ([], None)
    for (first, one), (second, two) in itertools.product([nothing, *every], every):
        settings = [setting for setting in (one, two) if setting is not None]
        written = [setting for setting in settings if setting in ("a.b=1", 'model="x y"')]
        wanted = [*written, *(setting for setting in settings if setting not in written)]
        found = place_behind([*first, *second, "mcp-server", "-c", "last=1"], lambda _: True)
        assert found[0] == "mcp-server", (first, second)
        assert [word for word in found[1:] if word not in ("-c", "--config")] in (
            [*wanted, "last=1"],
            [*reversed(wanted), "last=1"],
        )
        assert found[-2:] == ["-c", "last=1"], "what stands behind the command counts most"
        assert place_behind([*first, *second, "logout"], lambda _: False) == ["logout"]


@pytest.mark.parametrize(
    "words", [[], ["-m"], ["-m", "x"], ["--foo", "mcp-server"], ["-x", "exec"], ["--", "exec"], ["chat", "-m", "x"]]
)
def test_what_is_no_such_option_or_has_no_command_behind_it_is_left_as_it_is(words: list[str]) -> None:
    assert place_behind(list(words), lambda _: True) == words


def test_what_an_option_names_counts_before_what_another_brings_along() -> None:
    words = ["-s", "read-only", "--full-auto", "-c", "sandbox_mode=danger-full-access", "mcp-server"]
    settings = place_behind(words, lambda _: True)[2::2]
    modes = [setting for setting in settings if setting.startswith("sandbox_mode")]
    assert modes == ["sandbox_mode=danger-full-access", 'sandbox_mode="workspace-write"', 'sandbox_mode="read-only"']


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-m", "gpt-root"], {"model": "gpt-root"}),
        (["-C", "below", "--search", "-i", "none.png"], {"model": "gpt-5.5", "cwd": "below"}),
        (["-p", "work", "--enable", "plugins"], {"model": "of-profile"}),
        (["-s", "read-only", "-a", "never", "--model=gpt-root"], {"model": "gpt-root"}),
        (["-c", "model=written", "--full-auto", "--add-dir", "/data"], {"model": "written"}),
    ],
)
async def test_a_server_obeys_them(tmp_path: Path, words: list[str], expected: dict[str, str]) -> None:
    (tmp_path / "below").mkdir()
    command = (sys.executable, "-m", "understudy", *words, "mcp-server")
    async with ScriptedModel([say("hello")]) as model:
        config = {"model": "gpt-5.5", "profiles.work.model": "of-profile"}
        async with McpProcess(model, cwd=tmp_path, config=config, command=command) as client:
            await client.codex("hi")
            begun: Any = next(event for event in client.events() if event["type"] == "session_configured")
        asked = model.requests[0]
    assert (asked["model"], begun["model"]) == (expected["model"], expected["model"])
    assert (str(tmp_path / "below") in json.dumps(asked)) == ("-C" in words)


async def test_exec_takes_those_that_are_no_options_of_its_own(tmp_path: Path) -> None:
    async with ScriptedModel([say("hello")]) as model:
        where = place(model, tmp_path)
        run = await where.run(
            "--search", "-a", "never", "--no-alt-screen", "-m", "gpt-root", "exec", "--json", "--skip-git-repo-check", "go"
        )
    assert (run.code, run.types[-1]) == (0, "turn.completed"), run.err
    assert model.requests[0]["model"] == "gpt-root"
    assert "--search has no effect" in run.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-s", "all", "mcp-server"], "`all` is no value for `-s`; it can be read-only, "),
        (["--oss=yes", "mcp-server"], "`--oss` takes no value"),
        (["-C", "/no/such/place", "mcp-server"], "`-C /no/such/place` cannot be used: No such file or directory"),
    ],
)
def test_a_wrong_value_is_wrong_usage(program: Program, words: list[str], said: str) -> None:
    ended = program.call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
