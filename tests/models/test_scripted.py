"""The scripted model: what its files may say, how they are played, and how mistakes in them are told."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models.loopback import BOUND, Opened, built_in, prompt, said, user
from understudy.errors import ConfigError, ModelRefused, StreamLost
from understudy.models.auth import Credentials
from understudy.models.http_model import open_model
from understudy.models.model import Completed, ItemDone, Model, ModelSettings, Prompt
from understudy.net import HttpClient
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Reasoning, ReasoningText, SummaryText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

TOML = """
[[answers]]
steps = [
  { think = "Let me see." },
  { say = "I will look", pace = 0.001 },
  { call = "shell", arguments = { command = ["ls"] } },
  { usage = { input = 10, output = 5, cached = 4 } },
]

[[answers]]
say = ["Hel", "lo"]
"""
JSONL = """
# the same
[{"think": "Let me see."}, {"say": "I will look", "pace": 0.001}, {"call": "shell", "arguments": {"command": ["ls"]}}, \
{"usage": {"input": 10, "output": 5, "cached": 4}}]
{"say": ["Hel", "lo"]}
"""


def model(path: Path, **settings: Any) -> Model:
    return open_model(
        built_in("scripted"),
        ModelSettings("m", script=path, **settings),
        Credentials({}, path.parent),
        HttpClient({}),
    )


def opened(folder: Path, answers: Any, name: str = "script.json", **settings: Any) -> Opened:
    path = folder / name
    path.write_text(answers if isinstance(answers, str) else json.dumps(answers))
    return Opened(model(path, **settings), HttpClient({}))


@pytest.mark.parametrize(("name", "content"), [("script.toml", TOML), ("script.jsonl", JSONL)])
async def test_a_script_is_played_answer_by_answer(tmp_path: Path, name: str, content: str) -> None:
    scripted = opened(tmp_path, content, name)
    call = FunctionCall("shell", '{"command":["ls"]}', "call_1_3")
    thought = Reasoning(summary=(SummaryText("Let me see."),))
    first = await scripted.answer(prompt(user("go")))
    assert first == [
        ReasoningDelta("Let me see."),
        ItemDone(thought),
        TextDelta("I "),
        TextDelta("will "),
        TextDelta("look"),
        ItemDone(said("I will look")),
        ItemDone(call),
        Completed(Usage(10, 5, 15, 4)),
    ]
    history = (user("go"), thought, said("I will look"), call, FunctionCallOutput("call_1_3", "files"))
    second = await scripted.answer(prompt(*history))
    assert second == [TextDelta("Hel"), TextDelta("lo"), ItemDone(said("Hello")), Completed(None)]
    _, failure = await scripted.failing_answer(prompt(*history, said("Hello"), user("more")))
    assert isinstance(failure, ModelRefused)
    assert str(failure) == f"the script {tmp_path / name} has 2 answers, and this is request 3; add one, or set `loop`"


async def test_a_conversation_goes_on_where_it_was_in_another_process(tmp_path: Path) -> None:
    answers = [[{"say": "one"}, {"call": "shell"}, {"call": "shell"}], {"say": "two"}, {"say": "three"}]
    history = (
        user("go"),
        said("one"),
        FunctionCall("shell", "{}", "call_1_2"),
        FunctionCallOutput("call_1_2", ""),
        FunctionCall("shell", "{}", "call_1_3"),
        FunctionCallOutput("call_1_3", ""),
    )
    assert (await opened(tmp_path, answers).answer(prompt(*history)))[0] == TextDelta("two")
    counted = Prompt("", (user("compacted"),), (), "conversation", request_index=2)
    assert (await opened(tmp_path, answers).answer(counted))[0] == TextDelta("three")


async def test_conversations_do_not_share_their_place(tmp_path: Path) -> None:
    scripted = opened(tmp_path, [{"say": "one"}, {"say": "two"}])
    for conversation in ("a", "b"):
        assert (await scripted.answer(prompt(user("go"), conversation=conversation)))[0] == TextDelta("one")


async def test_a_script_may_begin_anew(tmp_path: Path) -> None:
    scripted = opened(tmp_path, {"answers": [{"call": "a"}, {"say": "b"}], "loop": True})
    events = [(await scripted.answer())[0] for _ in range(3)]
    assert events == [ItemDone(FunctionCall("a", "{}", "call_1_1")), TextDelta("b"), ItemDone(FunctionCall("a", "{}", "call_3_1"))]


async def test_failures_are_played_too(tmp_path: Path) -> None:
    answers = [
        [{"say": "par", "unfinished": True}, {"fail": "it broke", "retry": True, "after": 1.5}],
        {"fail": "no"},
        {"say": "ok"},
    ]
    scripted = opened(tmp_path, answers)
    seen, lost = await scripted.failing_answer()
    assert seen == [TextDelta("par")]
    assert isinstance(lost, StreamLost)
    assert (str(lost), lost.retry_after) == ("stream disconnected before completion: it broke", 1.5)
    _, refused = await scripted.failing_answer()
    assert isinstance(refused, ModelRefused)
    assert str(refused) == "no"
    assert (await scripted.answer())[0] == TextDelta("ok")


async def test_what_was_said_is_told_before_a_pause(tmp_path: Path) -> None:
    scripted = opened(tmp_path, [[{"say": "hello"}, {"hang": True}], [{"say": ["a", "b"], "pace": 0.1}, {"wait": 0.1}]])
    async with asyncio.timeout(BOUND), scripted.model.stream(prompt()) as answer:
        assert await answer.batch() == [TextDelta("hello"), ItemDone(said("hello"))]
    started = time.monotonic()
    await scripted.answer()
    assert time.monotonic() - started >= 0.2


async def test_raw_reasoning_is_shown_when_wanted(tmp_path: Path) -> None:
    answers = [{"think": ["h", "m"], "raw": True}]
    whole = ItemDone(Reasoning(content=(ReasoningText("hm"),)))
    assert await opened(tmp_path, answers).answer() == [whole, Completed(None)]
    shown = await opened(tmp_path, answers, show_raw=True).answer()
    assert shown == [ReasoningDelta("h", raw=True), ReasoningDelta("m", raw=True), whole, Completed(None)]


async def test_a_call_may_carry_nonsense(tmp_path: Path) -> None:
    scripted = opened(tmp_path, [{"call": "shell", "arguments": "not json", "id": "mine"}])
    assert (await scripted.answer())[0] == ItemDone(FunctionCall("shell", "not json", "mine"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("s.json", "{", "s.json: Input data was truncated"),
        ("s.json", '"text"', "s.json: expected a list of answers"),
        ("s.json", '{"answer": []}', "s.json: unknown key `answer`"),
        ("s.json", '{"answers": [], "loop": 1}', "s.json: `loop` must be true or false"),
        ("s.json", '[{"say": "x"}, {"sya": "x"}]', "s.json: answer 2: Object contains unknown field `sya`"),
        ("s.json", '[[{"say": "x"}, {"say": 1}]]', "s.json: answer 1, step 2: Expected `str | array | null`, got `int`"),
        ("s.json", '[{"say": "x", "call": "y"}]', "s.json: answer 1: expected exactly one of say, think, call"),
        ("s.json", '[{"pace": 1}]', "got none"),
        ("s.json", '[{"call": "x", "pace": 1}]', "s.json: answer 1: `pace` does not go with `call`"),
        ("s.json", '[{"wait": -1}]', "s.json: answer 1: a time must not be negative"),
        ("s.json", '[{"steps": [], "say": "x"}]', "s.json: answer 1: `steps` must be a list and stand alone"),
        ("s.jsonl", '{"say": "x"}\n{"say"', "s.jsonl: line 2: "),
        ("s.toml", "answers = [", "s.toml: "),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, name: str, content: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as wrong:
        opened(tmp_path, content, name)
    assert str(wrong.value).startswith(str(tmp_path / name))


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the script .*nothing\.json: No such file"):
        model(tmp_path / "nothing.json")


async def test_without_a_script_it_says_how_to_give_it_one(tmp_path: Path) -> None:
    http = HttpClient({})
    scripted = Opened(open_model(built_in("scripted"), ModelSettings("m"), Credentials({}, tmp_path), http), http)
    for _ in range(2):
        first = (await scripted.answer())[0]
        assert isinstance(first, TextDelta)
        assert "understudy.scripted_model" in first.text
