"""The scripts of a task's TOML: what a scripted model does, step by step, and what it has to be told on the way.

`scripts.solves` does the task. `scripts.errs` makes the mistake that `how` names; its step with `repair = true` begins to mend
it. From the second comes a third: a model that makes the mistake, mends nothing, and says that all tests pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from understudy.bench.tasks import SHIPPED, Task, load_tasks, read_task_table
from understudy.testing import Answer, Entry, call, cut_after, hang, say, status

Variant = Literal["solves", "repairs", "boasts"]
BOAST = "Everything is done, and all tests pass."


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One answer of the model, or something that happens between two of them. Exactly one of the first group is set."""

    sh: str | None = None  # a shell command
    patch: str | None = None  # without its first and last line
    call: str | None = None  # any tool, with `arguments`: a table, or text that is sent as it stands
    all: list[Step] | None = None  # several calls in one answer
    say: str | None = None
    cut: str | None = None  # says this, and then the stream breaks off
    refuse: int | None = None  # an HTTP status, with `body`
    user: str | None = None  # the next message of the user, after the turn has ended
    interrupt: str | None = None  # the call is cancelled while the model is silent; this is the next message
    kill: str | None = None  # the server is killed while the model is silent; this is the next message

    arguments: dict[str, Any] | str | None = None
    timeout: int | None = None
    workdir: str | None = None
    escalate: str | None = None  # the justification for leaving the sandbox
    body: str = ""
    usage: tuple[int, int] | None = None
    sees: str | list[str] = ""  # in what is new in the request that this step answers
    sees_not: str | list[str] = ""
    knows: str | list[str] = ""  # anywhere in that request
    knows_not: str | list[str] = ""
    repair: bool = False


class ScriptTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: list[Step]
    how: str = ""
    config: dict[str, Any] = {}
    arguments: dict[str, Any] = {}  # of the call of `codex`
    decide: list[str] = []  # the answers to questions, in order
    answer: str = ""  # what the last answer has to contain
    boast: str = BOAST  # the last word of the model that mends nothing


@dataclass(frozen=True)
class Script:
    task: Task
    variant: Variant
    how: str
    steps: list[Step]
    config: dict[str, Any]
    arguments: dict[str, Any]
    decide: list[str]
    answer: str
    tests: str | None = field(default=None)

    @property
    def name(self) -> str:
        return f"{self.task.name} {self.variant}"


def load_scripts(folder: Path = SHIPPED) -> list[Script]:
    """Three for each task, in the order of their names."""
    found: list[Script] = []
    for task in load_tasks(folder):
        table = cast(dict[str, Any], read_task_table(folder / f"{task.name}.toml")["scripts"])
        tests = table.get("tests")
        solves = msgspec.convert(table["solves"], ScriptTable)
        errs = msgspec.convert(table["errs"], ScriptTable)
        assert errs.how, f"{task.name}: `scripts.errs.how` names the mistake"
        first = next((at for at, step in enumerate(errs.steps) if step.repair), None)
        assert first, f"{task.name}: one step of `scripts.errs` has `repair = true`, and not the first"
        boast = [*([Step(sh=f"{tests} || true"), Step(sh=f"{tests} | cat")] if tests else []), Step(say=errs.boast)]
        found += [
            _script(task, "solves", solves, solves.steps, tests),
            _script(task, "repairs", errs, errs.steps, tests),
            _script(task, "boasts", errs, [*errs.steps[:first], *boast], tests, answer=errs.boast),
        ]
    return found


def _script(task: Task, variant: Variant, table: ScriptTable, steps: list[Step], tests: Any, answer: str | None = None) -> Script:
    wanted = table.answer if answer is None else answer
    return Script(task, variant, table.how, steps, table.config, table.arguments, table.decide, wanted, tests)


def answer_of(step: Step, number: int) -> Entry:
    """What goes over the wire for a step that is the model's."""
    if step.say is not None:
        return say(step.say, usage=step.usage)
    if step.cut is not None:
        return cut_after(say(step.cut))
    if step.refuse is not None:
        return status(step.refuse, step.body)
    if step.interrupt is not None or step.kill is not None:
        return hang()
    calls = step.all if step.all is not None else [step]
    answer = _call(calls[0], f"call_{number}_0")
    for at, more in enumerate(calls[1:], 1):
        answer += _call(more, f"call_{number}_{at}")
    return Answer(answer.parts, step.usage)


def _call(step: Step, call_id: str) -> Answer:
    if step.sh is not None:
        arguments: dict[str, Any] = {"command": ["sh", "-c", step.sh]}
        if step.timeout is not None:
            arguments["timeout"] = step.timeout
        if step.workdir is not None:
            arguments["workdir"] = step.workdir
        if step.escalate is not None:
            arguments |= {"with_escalated_permissions": True, "justification": step.escalate}
        return call("shell", call_id=call_id, **arguments)
    if step.patch is not None:
        text = step.patch.strip("\n")
        return call("apply_patch", call_id=call_id, input=f"*** Begin Patch\n{text}\n*** End Patch")
    assert step.call is not None, f"a step without a meaning: {step}"
    given = step.arguments
    return call(step.call, call_id=call_id, arguments_text=given if isinstance(given, str) else json.dumps(given or {}))
