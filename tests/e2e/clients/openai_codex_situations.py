"""The situations that the tests of PyPI's `openai-codex` put `codex app-server` into. argv is the task as JSON.

The model answers by what the user said last. Prints what went wrong in each situation, or null.
"""

import asyncio
import base64
import importlib
import json
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sdk: Any = importlib.import_module("openai_codex")  # of this script's environment, not of the one that checks its types
types: Any = importlib.import_module("openai_codex.generated.v2_all")

task = json.loads(sys.argv[1])
config = sdk.CodexConfig(codex_bin=task["codex"], cwd=task["cwd"], env=task["env"])
Step = Callable[[Any], Any]
SITUATIONS: dict[str, Step] = {}
DENY, REVIEW = sdk.ApprovalMode.deny_all, sdk.ApprovalMode.auto_review


def situation(play: Step) -> Step:
    SITUATIONS[play.__name__] = play
    return play


def same(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def said(items: Any) -> list[str]:
    return [item.root.text for item in items if item.root.type == "agentMessage"]


def messages(events: list[Any]) -> list[str]:
    return said([event.payload.item for event in events if event.method == "item/completed"])


def policy(codex: Any, thread: Any) -> Any:
    state = codex._client.thread_resume(thread.id, types.ThreadResumeParams(thread_id=thread.id))  # as the package's own tests do
    return state.model_dump(by_alias=True, mode="json")["approvalPolicy"]


# -- runs


@situation
def a_run(codex: Any) -> None:
    result = codex.thread_start().run("hello")
    same(
        (result.final_response, said(result.items), result.usage is not None),
        ("Hello from the mock.", ["Hello from the mock."], True),
    )


@situation
def parameters_and_usage(codex: Any) -> None:
    result = codex.thread_start().run("use overrides", model="mock-model-override")
    same(result.final_response, "overrides applied by mock-model-override")
    usage = result.usage.model_dump(by_alias=True, mode="json")
    counts = {
        "cacheWriteInputTokens": 0,
        "cachedInputTokens": 3,
        "inputTokens": 11,
        "outputTokens": 7,
        "reasoningOutputTokens": 5,
        "totalTokens": 18,
    }
    same((usage["last"], usage["total"]), (counts, counts))


@situation
def the_last_message_is_the_answer(codex: Any) -> None:
    result = codex.thread_start().run("last unknown phase wins")
    same((result.final_response, said(result.items)), ("Second message", ["First message", "Second message"]))


@situation
def commentary_is_no_answer(codex: Any) -> None:
    result = codex.thread_start().run("commentary only")
    same((result.final_response, said(result.items)), (None, ["Commentary"]))


@situation
def the_final_answer_is_one(codex: Any) -> None:
    result = codex.thread_start().run("final before commentary")
    same(result.final_response, "Final answer")
    same([str(item.root.phase.value) for item in result.items if item.root.type == "agentMessage"], ["final_answer", "commentary"])


@situation
def a_turn_that_fails(codex: Any) -> None:
    try:
        codex.thread_start().run("trigger failure")
    except RuntimeError as error:
        same("boom from mock model" in str(error), True)
    else:
        raise AssertionError("it did not fail")


# -- streams


@situation
def a_stream(codex: Any) -> None:
    events = list(codex.thread_start().turn("stream please").stream())
    same([event.payload.delta for event in events if event.method == "item/agentMessage/delta"], ["he", "llo"])
    same(messages(events), ["hello"])
    same([str(event.payload.turn.status.value) for event in events if event.method == "turn/completed"], ["completed"])


@situation
def a_turn_is_run(codex: Any) -> None:
    turn = codex.thread_start().turn("complete this turn")
    result = turn.run()
    same(
        (result.id, str(result.status.value), said(result.items), result.final_response),
        (turn.id, "completed", ["turn complete"], "turn complete"),
    )


@situation
def text_alone(codex: Any) -> None:
    chunks = list(codex._client.stream_text(codex.thread_start().id, "stream please"))
    same([chunk.delta for chunk in chunks], ["he", "llo"])


@situation
def two_streams_at_once(codex: Any) -> None:
    first = codex.thread_start().turn("one slowly").stream()
    second = codex.thread_start().turn("two slowly").stream()
    begun = [
        next(event.payload.delta for event in stream if event.method == "item/agentMessage/delta") for stream in (first, second)
    ]
    same(begun, ["one-", "two-"])
    same((messages(list(first)), messages(list(second))), (["one-done"], ["two-done"]))


@situation
def a_turn_is_steered(codex: Any) -> None:
    turn = codex.thread_start().turn("steer me slowly")
    stream = turn.stream()
    before = [next(event for event in stream if event.method == "item/agentMessage/delta")]
    same(turn.steer("Use this steering input.").turn_id, turn.id)
    same(messages([*before, *stream]), ["before steer", "after steer"])


@situation
def a_turn_is_interrupted_and_the_thread_goes_on(codex: Any) -> None:
    thread = codex.thread_start()
    turn = thread.turn("interrupt me slowly")
    stream = turn.stream()
    next(event for event in stream if event.method == "item/agentMessage/delta")
    same(turn.interrupt().model_dump(by_alias=True, mode="json"), {})
    same([str(event.payload.turn.status.value) for event in stream if event.method == "turn/completed"], ["interrupted"])
    same(thread.run("hello").final_response, "Hello from the mock.")


# -- what is given


@situation
def images(codex: Any) -> None:
    picture = "data:image/png;base64," + base64.b64encode(Path(task["image"]).read_bytes()).decode()
    for image in (sdk.ImageInput(picture), sdk.LocalImageInput(task["image"])):
        result = codex.thread_start().run([sdk.TextInput("Describe the image."), image])
        same(result.final_response, "an image of data:image/png;base64,")


@situation
def a_skill_of_the_user(codex: Any) -> None:
    result = codex.thread_start().run([sdk.TextInput("Use the selected skill."), sdk.SkillInput("demo", task["skill"])])
    same(result.final_response, f"<name>demo</name> <path>{task['skill']}</path> Use the word cobalt.")


# -- approvals


@situation
def a_resumed_thread_keeps_its_approval_mode(codex: Any) -> None:
    source = codex.thread_start(approval_mode=DENY)
    source.run("hello")
    same(policy(codex, codex.thread_resume(source.id)), "never")


@situation
def a_fork_keeps_the_approval_mode_or_takes_another(codex: Any) -> None:
    source = codex.thread_start(approval_mode=DENY)
    source.run("hello")
    forks = [codex.thread_fork(source.id), codex.thread_fork(source.id, approval_mode=REVIEW)]
    same(len({source.id, *(fork.id for fork in forks)}), 3)
    same([policy(codex, fork) for fork in forks], ["never", "on-request"])


@situation
def the_approval_mode_of_a_turn_holds_until_another_is_chosen(codex: Any) -> None:
    thread = codex.thread_start()
    held: list[Any] = []
    for chosen in ({"approval_mode": DENY}, {}, {"approval_mode": REVIEW}):
        thread.run("hello", **chosen)
        held.append(policy(codex, thread))
    same(held, ["never", "never", "on-request"])


# -- threads


@situation
def a_name(codex: Any) -> None:
    thread = codex.thread_start()
    thread.run("hello")
    thread.set_name("sdk lifecycle")
    same(thread.read().thread.name, "sdk lifecycle")


@situation
def the_program_says_who_it_is(codex: Any) -> None:
    told = codex.metadata
    same((bool(told.serverInfo.name), bool(told.serverInfo.version), bool(told.userAgent)), (True, True, True))


@situation
def lists_of_archived_threads_and_of_others(codex: Any) -> None:
    active, archived = codex.thread_start(), codex.thread_start()
    for thread in (active, archived):
        thread.run("hello")
    same(codex.thread_archive(archived.id).model_dump(by_alias=True, mode="json"), {})
    ours = {active.id, archived.id}
    listed = [[row.id for row in codex.thread_list(archived=kept).data if row.id in ours] for kept in (False, True)]
    same(listed, [[active.id], [archived.id]])
    same(codex.thread_unarchive(archived.id).read().thread.id, archived.id)


@situation
def the_history(codex: Any) -> None:
    thread = codex.thread_start()
    thread.run("hello")
    thread.run("complete this turn")
    found: list[tuple[str, str]] = []
    for turn in thread.read(include_turns=True).thread.turns:
        for item in turn.items:
            if item.root.type == "userMessage":
                found.append(("user", item.root.content[0].root.text))
            elif item.root.type == "agentMessage":
                found.append(("agent", item.root.text))
    expected = [("user", "hello"), ("agent", "Hello from the mock."), ("user", "complete this turn"), ("agent", "turn complete")]
    same(found, expected)


@situation
def models(codex: Any) -> None:
    same(isinstance(codex.models(include_hidden=True).model_dump(by_alias=True, mode="json").get("data"), list), True)


@situation
def compaction(codex: Any) -> None:
    thread = codex.thread_start()
    same(thread.run("hello").final_response, "Hello from the mock.")
    same(thread.compact().model_dump(by_alias=True, mode="json"), {})


# -- the same with the package's asynchronous half


async def asynchronously() -> dict[str, str | None]:
    async with sdk.AsyncCodex(config=config) as codex:

        async def runs() -> None:
            result = await (await codex.thread_start()).run("last unknown phase wins")
            same((result.final_response, said(result.items)), ("Second message", ["First message", "Second message"]))
            result = await (await codex.thread_start()).run("commentary only")
            same((result.final_response, said(result.items)), (None, ["Commentary"]))

        async def streams() -> None:
            turns = [await (await codex.thread_start()).turn(words) for words in ("one slowly", "two slowly")]

            async def all_of(turn: Any) -> list[str]:
                return messages([event async for event in turn.stream()])

            same(await asyncio.gather(*map(all_of, turns)), [["one-done"], ["two-done"]])

        async def models_meanwhile() -> None:
            stream = codex._client.stream_text((await codex.thread_start()).id, "one slowly")
            first = await anext(stream)
            listed = await codex.models()
            rest = [chunk.delta async for chunk in stream]
            same((first.delta, rest, isinstance(listed.data, list)), ("one-", ["done"], True))

        async def life() -> None:
            thread = await codex.thread_start(approval_mode=DENY)
            same((await thread.run("hello")).final_response, "Hello from the mock.")
            await thread.set_name("async lifecycle")
            same((await thread.read()).thread.name, "async lifecycle")
            same((await codex.thread_resume(thread.id)).id, thread.id)
            same((await codex.thread_fork(thread.id)).id != thread.id, True)
            await codex.thread_archive(thread.id)
            same((await codex.thread_unarchive(thread.id)).id, thread.id)

        return {f"async {play.__name__}": await _outcome(play) for play in (runs, streams, models_meanwhile, life)}


async def _outcome(play: Callable[[], Coroutine[Any, Any, None]]) -> str | None:
    try:
        await play()
    except Exception:
        return traceback.format_exc()
    return None


def main() -> None:
    outcomes: dict[str, str | None] = {}
    with sdk.Codex(config=config) as codex:
        for name, play in SITUATIONS.items():
            try:
                play(codex)
                outcomes[name] = None
            except Exception:
                outcomes[name] = traceback.format_exc()
    outcomes |= asyncio.run(asynchronously())
    print(json.dumps(outcomes))


main()
