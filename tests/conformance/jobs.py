"""Tasks that no turn is like: one that ends with an error of the protocol, and one that asks two things at once.

Only what they do is made up here. Who is given a task, and what is said of ids and of clients that know no tasks, is the server's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.conformance.asking_tools import NAME, form
from tests.conformance.offered import Json, Tools, result, text
from understudy.servers.mcp import task_methods
from understudy.servers.mcp.call import Call, Handler

TOOLS = Tools()
_numbers = itertools.count(1)


@dataclass
class Job:
    task_id: str
    asks: dict[str, Json] = field(default_factory=dict[str, Json])
    error: Json | None = None
    cancelled: bool = False

    def base(self) -> Json:
        at = "2026-07-28T00:00:00.000Z"
        return {"taskId": self.task_id, "createdAt": at, "lastUpdatedAt": at, "ttlMs": None, "pollIntervalMs": 100}

    def state(self) -> Json:
        if self.cancelled:
            return {"status": "cancelled", **self.base()}
        if self.error is not None:
            return {"status": "failed", "error": self.error, **self.base()}
        if self.asks:
            return {"status": "input_required", "inputRequests": self.asks, **self.base()}
        return {"status": "completed", "result": result(text("Thank you.")), **self.base()}


JOBS: dict[str, Job] = {}


def make(call: Call, **more: Any) -> Json:
    task_methods.check_declared(call)
    job = Job(f"job-{next(_numbers)}", **more)
    JOBS[job.task_id] = job
    return {"resultType": "task", "status": "working", **job.base()}


@TOOLS.add("protocol_error_job", "Makes a task that ends with an error of the protocol")
async def protocol_error_job(call: Call) -> Any:
    return make(call, error={"code": -32603, "message": "this job ends with an error of the protocol"})


@TOOLS.add("multi_input", "Makes a task that asks two things at once")
async def multi_input(call: Call) -> Any:
    return make(call, asks={"name": NAME, "confirm": form("Are you sure?", confirm={"type": "boolean"})})


def _asked(call: Call) -> tuple[Job | None, Json]:
    task_methods.check_declared(call)
    params = msgspec.json.decode(call.arguments or b"{}")
    return JOBS.get(params.get("taskId")), params


async def get(call: Call) -> Any:
    job, _ = _asked(call)
    return await task_methods.get(call) if job is None else job.state()


async def update(call: Call) -> Any:
    job, params = _asked(call)
    if job is None:
        return await task_methods.update(call)
    for key in params["inputResponses"]:
        job.asks.pop(key, None)
    return {}


async def cancel(call: Call) -> Any:
    job, _ = _asked(call)
    if job is None:
        return await task_methods.cancel(call)
    job.cancelled = True
    return {}


METHODS: dict[str, Handler] = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}
