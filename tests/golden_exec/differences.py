"""Where ours differs from the recorded `codex exec` by intent: each difference changes the recording, and says why.

What is left after these changes has to match exactly. `COMMON` holds for every recording, `TABLE` for those it names.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.golden.matchers import Mentions

Json = dict[str, Any]
Change = Callable[[Json], None]


@dataclass(frozen=True)
class Difference:
    reason: str
    changes: tuple[Change, ...]


def differs(reason: str, *changes: Change) -> Difference:
    return Difference(reason, changes)


# -- changes


def at(step: int, *changes: Change) -> Change:
    """Changes of one step."""

    def change(recording: Json) -> None:
        for each in changes:
            each(recording["steps"][step])

    return change


def ends(code: int) -> Change:
    return lambda step: step.update(exit=code)


def says_nothing(step: Json) -> None:
    """Nothing is begun, and the reason is on standard error."""
    step.update(stdout=[], exit=1, asked=[])


def runs(text: str, *items: Json, asked: list[str] | None = None, input_tokens: int = 100, thread: str = "<uuid-1>") -> Change:
    """A whole run that is completed, where the recorded one was not."""
    share = input_tokens // 100
    usage = {"input_tokens": input_tokens, "cached_input_tokens": 40 * share, "cache_write_input_tokens": 0}
    usage |= {"output_tokens": 20 * share, "reasoning_output_tokens": 7 * share}
    told = [*items, completed("agent_message", text=text)]

    def change(step: Json) -> None:
        first = [{"type": "thread.started", "thread_id": thread}, {"type": "turn.started"}]
        step.update(stdout=[*first, *told, {"type": "turn.completed", "usage": usage}], exit=0)
        if asked is not None:
            step["asked"] = [{"model": "gpt-5.5", "user": asked}]

    return change


def completed(kind: str, **fields: Any) -> Json:
    return {"type": "item.completed", "item": {"id": "item", "type": kind, **fields}}


def command(words: str, output: Any, exit_code: int) -> list[Json]:
    begun = {"id": f"item {words}", "type": "command_execution", "command": words, "aggregated_output": "", "exit_code": None}
    status = "completed" if exit_code == 0 else "failed"
    return [
        {"type": "item.started", "item": {**begun, "status": "in_progress"}},
        {"type": "item.completed", "item": {**begun, "aggregated_output": output, "exit_code": exit_code, "status": status}},
    ]


def file_change(status: str, **kinds: str) -> Json:
    changes = [{"path": f"<CWD>/{path.replace('__', '.')}", "kind": kind} for path, kind in kinds.items()]
    return completed("file_change", changes=changes, status=status)


def adds(position: int, *events: Json) -> Change:
    def change(step: Json) -> None:
        step["stdout"][position:position] = events

    return change


def fails_with(*words: str) -> Change:
    """The reason stands in both of the last events."""

    def change(step: Json) -> None:
        error, failed = step["stdout"][-2:]
        error["message"] = failed["error"]["message"] = Mentions(*words)

    return change


def output_of(*words: str) -> Change:
    """Of the first command."""

    def change(step: Json) -> None:
        for event in step["stdout"]:
            item = event.get("item", {})
            if event["type"] == "item.completed" and item.get("type") == "command_execution":
                item["aggregated_output"] = Mentions(*words)
                return

    return change


def answers_again(text: str) -> Change:
    """The model's last answer, once more with other words: it is asked a second time."""

    def change(step: Json) -> None:
        last = json.loads(json.dumps(step["model"][-1]).replace(json.dumps(_said(step["model"][-1])), json.dumps(text)))
        step["model"].append(last)

    return change


def _said(answer: Json) -> str:
    return next(
        event["item"]["content"][0]["text"]
        for event in answer["events"]
        if "content" in event.get("item", {}) and event["item"]["content"]
    )


def retries_are_items(step: Json) -> None:
    told = step["stdout"]
    for index, event in enumerate(told):
        if event["type"] == "error" and "Reconnecting" in event["message"]:
            count = re.search(r"\d+/\d+", event["message"])
            words = ("stream error: stream disconnected before completion", count[0] if count else "")
            told[index] = completed("error", message=Mentions(*words))


def asks_anything(step: Json) -> None:
    """What the model is asked is not compared."""
    step["asked"] = None


def completes_first_command(output: str) -> Change:
    """Before the end of the turn, with the exit code of a command whose end nobody has seen."""

    def change(step: Json) -> None:
        begun = next(event["item"] for event in step["stdout"] if event["type"] == "item.started")
        ended = {**begun, "aggregated_output": output, "exit_code": -1, "status": "failed"}
        step["stdout"].insert(-1, {"type": "item.completed", "item": ended})

    return change


def thread_of(number: int) -> Change:
    """Threads are numbered as they appear; those that only the recorded program began are not there."""

    def change(step: Json) -> None:
        step["stdout"][0]["thread_id"] = f"<uuid-{number}>"

    return change


def usage(answers: int) -> Change:
    """The thread has had that many answers of the model."""
    counts = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 20, "reasoning_output_tokens": 7}

    def change(step: Json) -> None:
        step["stdout"][-1]["usage"].update({name: count * answers for name, count in counts.items()})

    return change


def asked(*user: Any, times: int = 1) -> Change:
    return lambda step: step.update(asked=[{"model": "gpt-5.5", "user": list(user)}] * times)


# -- of all recordings


def shell_by_its_name(recording: Json) -> None:
    text = json.dumps(recording["steps"])
    recording["steps"] = json.loads(text.replace("/bin/bash -lc", "bash -lc").replace("/bin/bash: ", "bash: "))


def patches_only_completed(recording: Json) -> None:
    for step in recording["steps"]:
        if "stdout" in step:
            step["stdout"] = [
                event
                for event in step["stdout"]
                if not (isinstance(event, dict) and event["type"] == "item.started" and event["item"]["type"] == "file_change")
            ]


def images_without_words(recording: Json) -> None:
    for step in recording["steps"]:
        for request in step["asked"]:
            request["user"] = [text for text in request["user"] if not re.fullmatch(r"<image name=.*>|</image>", text)]


COMMON = [
    differs("the shell tool names `bash`, and finds it on the path", shell_by_its_name),
    differs("the types that clients check know no patch in progress: it is one completed item", patches_only_completed),
    differs("an image goes along without words about its file", images_without_words),
]

ITEM = "what is refused, or does not work, is an item all the same"
CAUSE = "a failure says the status and the model's own message, and what can be done"
UNKNOWN = "what cannot be resumed is an error, and no new thread"
RETRY = "what is tried again is an item: a top-level error ends some clients"
CHECKED = "the answer is held against its schema: one more try, then a failure"

TABLE: dict[str, list[Difference]] = {
    "command_left_running": [
        differs("a command that is ended with the program has its item completed", at(0, completes_first_command("start\n"))),
    ],
    "sigkill_resume": [
        differs(
            "a command that died with its program has its item in the next turn",
            at(1, adds(2, *command("bash -lc 'echo started; sleep 3; echo x > late.txt'", Mentions("not known"), -1))),
            at(1, asked("go", Mentions("Session 1001", "not known"), "what happened?")),
        ),
    ],
    "review": [differs("what the review used is counted", at(0, usage(1)), at(0, asks_anything))],
    "add_dir": [
        differs("/tmp is private, so what lies there and was not named is not there", at(0, output_of("No such file"))),
    ],
    "approval_policy_given": [
        differs(ITEM, at(0, adds(2, *command("bash -lc 'echo x > f.txt'", Mentions("nobody can be asked"), -1)))),
    ],
    "approval_policy_untrusted": [
        differs(
            "all policies are accepted; what would have to be asked is refused",
            at(0, runs("ok", *command("bash -lc 'touch f.txt'", Mentions("nobody can be asked"), -1), input_tokens=200)),
            at(0, asked("go", times=2)),
            at(1, thread_of(2)),
        ),
    ],
    "bypass": [
        differs("--full-auto is accepted", at(2, runs("ok", asked=["go"], thread="<uuid-3>")), at(3, thread_of(4))),
    ],
    "command_huge_output": [differs("a line is under 60,000 bytes", at(0, output_of("xxx", "omitted")))],
    "command_long_output": [differs("a line is under 60,000 bytes", at(0, output_of("1\n2\n3\n", "\n30000\n")))],
    "compact": [differs("our own words ask for the summary", at(0, asks_anything))],
    "config_flags": [
        differs(
            "a key that is not known is told once",
            at(3, lambda step: step["stdout"].pop(1)),
            at(3, lambda step: step["stdout"][1]["item"].update(message=Mentions("nonsense", "not a key"))),
        ),
    ],
    "context_length": [differs(CAUSE, at(0, fails_with("exceeds the context window")))],
    "denied_outside": [
        differs("/tmp is private, so what lies there and was not named is not there", at(0, output_of("No such file"))),
    ],
    "env_sdk": [
        differs(
            "there is no WebSocket to fall back from", *(at(number, runs("ok", thread=f"<uuid-{number + 1}>")) for number in (0, 2))
        ),
        differs("OPENAI_BASE_URL is honoured", at(1, runs("ok", asked=["go"], thread="<uuid-2>"))),
    ],
    "escalation_refused": [
        differs(
            "under `never` a command that asks to leave the sandbox runs in it",
            at(0, adds(2, *command("bash -lc 'echo x > f.txt'", Mentions("Read-only file system"), 1))),
        ),
    ],
    "fail_after_tools": [differs(CAUSE, at(0, fails_with("HTTP 400: bad")))],
    "flags_new": [
        differs(
            "an unknown feature is a note on standard error",
            at(4, runs("ok", asked=["go"], thread="<uuid-5>")),
            at(5, thread_of(6)),
        ),
    ],
    "flags_odd": [
        differs(
            "our own name and version",
            at(1, lambda step: step.update(stdout=[Mentions("understudy ")])),
            at(2, lambda step: step.update(stdout=[Mentions("understudy ")])),
        ),
        differs(
            "-a is accepted",
            at(6, lambda step: step.update(model=[{"status": 400, "body": '{"message": "late"}'}])),
            at(6, lambda step: step.update(exit=1, asked=[{"model": "gpt-5.5", "user": ["go"]}])),
            at(
                6,
                lambda step: step.update(
                    stdout=[
                        {"type": "thread.started", "thread_id": "<uuid-1>"},
                        {"type": "turn.started"},
                        {"type": "error", "message": "HTTP 400: late"},
                        {"type": "turn.failed", "error": {"message": "HTTP 400: late"}},
                    ]
                ),
            ),
            at(8, thread_of(2)),
        ),
    ],
    "http_400": [differs(CAUSE, at(0, fails_with("HTTP 400: bad thing")))],
    "http_401": [differs(CAUSE, at(0, fails_with("HTTP 401: Incorrect API key\n")))],
    "http_403": [differs(CAUSE, at(0, fails_with("HTTP 403: nope\n")))],
    "http_404": [differs(CAUSE, at(0, fails_with("HTTP 404: no such model\n")))],
    "http_429": [differs(CAUSE, at(0, fails_with("limit (resets in 1h 0m)\n")))],
    "http_500": [differs(CAUSE, at(0, fails_with("HTTP 500: kaputt\n")))],
    "http_503": [differs(CAUSE, at(0, fails_with("HTTP 503: overloaded\n")))],
    "image": [
        differs("an image that is not there is an error", at(2, says_nothing)),
        differs("-i takes one value, so the prompt is the prompt", at(3, runs("seen", asked=["see"], thread="<uuid-3>"))),
    ],
    "last_message": [
        differs("an answer that cannot be written is a failure", at(2, ends(1))),
        differs("the second run is for a person, and no event names its thread", at(2, thread_of(2))),
    ],
    "mcp_server_required_dead": [
        differs(
            "a server that has to be there is missed when the turn begins, which fails",
            at(
                0,
                lambda step: step["stdout"].extend(
                    [
                        {"type": "thread.started", "thread_id": "<uuid-1>"},
                        {"type": "turn.started"},
                        *failed_by("required MCP servers failed to start: dead"),
                    ]
                ),
            ),
        ),
    ],
    "no_server": [
        differs(
            "nobody is tried for ever",
            at(
                0,
                lambda step: step["stdout"].__setitem__(slice(2, None), failed_by("cannot connect")),
                ends(1),
            ),
        ),
    ],
    "output_schema_bad": [
        differs("a schema that is no object is refused", at(2, says_nothing)),
        differs(
            CHECKED,
            at(
                3,
                answers_again("still not json"),
                lambda step: step["stdout"].__setitem__(
                    slice(3, None),
                    [
                        completed("error", message=Mentions("does not fit the output schema")),
                        completed("agent_message", text="still not json"),
                        *failed_by("does not fit the output schema"),
                    ],
                ),
                ends(1),
                asks_anything,
                thread_of(1),
            ),
        ),
    ],
    "patch_all": [
        differs(
            "a move shows the new path as well",
            at(
                0,
                lambda step: step["stdout"][2]["item"].update(
                    changes=[
                        {"path": "<CWD>/a.txt", "kind": "update"},
                        {"path": "<CWD>/b.txt", "kind": "delete"},
                        {"path": "<CWD>/c.txt", "kind": "update", "move_path": "<CWD>/d/moved.txt"},
                        {"path": "<CWD>/d/moved.txt", "kind": "add"},
                        {"path": "<CWD>/new.txt", "kind": "add"},
                    ]
                ),
            ),
        ),
    ],
    "patch_denied": [differs(ITEM, at(0, adds(2, file_change("failed", new__txt="add"))))],
    "patch_fails": [differs(ITEM, at(0, adds(2, file_change("failed", a__txt="update"))))],
    "plain_unknown_model": [differs("a model that is not known needs no excuse", at(0, lambda step: step["stdout"].pop(1)))],
    "plan_off": [
        differs(
            "the plan tool is offered",
            at(
                0,
                adds(
                    2,
                    {
                        "type": "item.started",
                        "item": {"id": "plan", "type": "todo_list", "items": [{"text": "look", "completed": False}]},
                    },
                ),
            ),
            at(
                0,
                adds(
                    4,
                    {
                        "type": "item.completed",
                        "item": {"id": "plan", "type": "todo_list", "items": [{"text": "look", "completed": False}]},
                    },
                ),
            ),
        ),
    ],
    "profile": [
        differs("a profile that is not there is an error", at(1, says_nothing)),
        differs(
            "a table of the configuration can be a profile",
            at(2, runs("ok", thread="<uuid-2>")),
            at(2, lambda step: step.update(asked=[{"model": "gpt-5.6-sol", "user": ["go"]}])),
        ),
    ],
    "response_failed": [differs(CAUSE, at(1, fails_with("You exceeded your quota\n")))],
    "response_incomplete": [differs(CAUSE, at(0, fails_with("output limit (reason: max_output_tokens)")))],
    "resume_after_failure": [differs(CAUSE, at(0, fails_with("HTTP 400: bad")))],
    "resume_last_none": [differs(UNKNOWN, at(0, says_nothing))],
    "resume_options": [
        differs(
            CHECKED,
            at(
                1,
                lambda step: step["model"][0].update(
                    json.loads(json.dumps(step["model"][0]).replace('"two"', '"{\\"answer\\": \\"two\\"}"'))
                ),
                lambda step: step["stdout"][2]["item"].update(text='{"answer": "two"}'),
            ),
        ),
        differs("an ephemeral turn is not kept", at(5, usage(3), asked("first", "two", "six"))),
    ],
    "resume_orders": [
        differs(
            "an image is one value, so the thread is resumed",
            at(2, thread_of(1), usage(3), asked("first", "ts order", "python sdk order")),
            at(3, usage(4), asked("first", "ts order", "python sdk order", "agents order")),
            at(4, usage(5), asked("first", "ts order", "python sdk order", "agents order", "five")),
            at(5, usage(6), asked("first", "ts order", "python sdk order", "agents order", "five", "six")),
            at(6, usage(7), asked("first", "ts order", "python sdk order", "agents order", "five", "six", "seven")),
        ),
    ],
    "resume_unknown": [differs(UNKNOWN, at(1, says_nothing), at(2, says_nothing))],
    "retry_error_event": [
        differs(
            RETRY + "; and the provider's words are given",
            at(0, retries_are_items, fails_with("stream disconnected before completion: Rate limit reached")),
        ),
    ],
    "retry_exhausted": [differs(RETRY, at(0, retries_are_items))],
    "retry_ok": [differs(RETRY, at(0, retries_are_items))],
    "several_calls": [
        differs(
            "commands run in the order in which the model called them",
            at(
                0,
                lambda step: step["stdout"].__setitem__(
                    slice(2, 6),
                    [*command("bash -lc 'sleep 0.6; echo first'", "first\n", 0), *command("bash -lc 'echo second'", "second\n", 0)],
                ),
            ),
        ),
    ],
    "sigint_command": [
        differs(
            "what was interrupted is completed, and the turn has an end", at(0, lambda step: interrupted(step, "started\n", 130))
        ),
    ],
    "sigint_model": [differs("the turn has an end, and 130 is Ctrl-C", at(0, lambda step: interrupted(step, None, 130)))],
    "sigterm_command": [
        differs("what was interrupted is completed, and the turn has an end", at(0, lambda step: interrupted(step, "started\n"))),
    ],
    "stdin_open": [differs("an open pipe that says nothing is not waited for", at(0, runs("ok", asked=["say hi"])))],
    "web_search": [
        differs(
            "no search is offered to the model, so its provider does none",
            at(0, lambda step: step["stdout"].__setitem__(slice(2, 6), [])),
        ),
    ],
}


def failed_by(*words: str) -> list[Json]:
    return [{"type": "error", "message": Mentions(*words)}, {"type": "turn.failed", "error": {"message": Mentions(*words)}}]


def interrupted(step: Json, output: str | None = None, code: int | None = None) -> None:
    if code is not None:
        step.update(exit=code)
    if output is not None:
        begun = next(event["item"] for event in step["stdout"] if event["type"] == "item.started")
        step["stdout"].append(
            {"type": "item.completed", "item": {**begun, "aggregated_output": output, "exit_code": 137, "status": "failed"}}
        )
    step["stdout"].append({"type": "turn.failed", "error": {"message": "interrupted"}})


def apply(name: str, recording: Json) -> None:
    for difference in (*COMMON, *TABLE.get(name, ())):
        for change in difference.changes:
            change(recording)
