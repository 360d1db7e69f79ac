"""A model that does what the last message says. It asks for no script, so any number of conversations can use it.

`run` starts a long command, `session` one that outlives its turn, `ask` one that is asked about first, `echo` and `touch` short
ones; `patch` makes a file; `talk` speaks and stops in the middle; anything else is answered at once.
"""

from __future__ import annotations

from typing import Any

from understudy.testing import Answer, ReceivedRequest, ScriptedModel, call, deltas, say

LONG_PAUSE = 3600.0


class ObligingModel(ScriptedModel):
    def __init__(self) -> None:
        super().__init__(_oblige)


def _oblige(request: ReceivedRequest) -> Answer:
    last: dict[str, Any] = request.body["messages"][-1]
    return say("done") if last["role"] == "tool" else _answer_to(str(last["content"]))


def _answer_to(text: str) -> Answer:
    match text.split()[0]:
        case "run":
            return call("shell", command=["sleep", "60"], timeout=100_000)
        case "session":
            return call("exec_command", cmd="sleep 60", yield_time_ms=250)
        case "ask":
            return call("shell", command=["sh", "-c", "echo approved; sleep 60"], timeout=100_000)
        case "echo":
            return say("let me see") + call("shell", command=["echo", "hi"])
        case "patch":
            patch = "*** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch"
            return call("apply_patch", input=patch)
        case "touch":
            return call("shell", command=["touch", "made"])
        case "talk":
            return deltas(["words ", LONG_PAUSE])
        case _:
            return say(f"ok: {text}")
