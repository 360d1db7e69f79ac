"""A recorded exchange with the real server, read into steps that can be compared.

An event comes as two notifications with the same params, `codex/event` and its own name: here it is one step.
Deltas that follow each other are one step too, for where a stream is split is chance.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "recordings"
TEXT_DELTAS = (
    *("agent_message_delta", "agent_reasoning_delta", "agent_reasoning_raw_content_delta"),
    *(
        "agent_message_content_delta",
        "reasoning_content_delta",
        "reasoning_raw_content_delta",
    ),  # the same, as they were called later
)
OUTPUT_DELTA = "exec_command_output_delta"

Json = dict[str, Any]


@dataclass
class Step:
    """One thing that happened. `value` is a message, an event's params, or a model request."""

    kind: Literal["client", "response", "request", "event", "notification", "model"]
    value: Json

    @property
    def event(self) -> str:
        """The type of an event; empty for anything else."""
        return self.value["msg"]["type"] if self.kind == "event" else ""


@dataclass
class Recording:
    """What was recorded, or, after the differences were applied, what we expect of ours."""

    name: str
    setup: Json
    model: list[Any]
    steps: list[Step]
    files: Json  # of the working directory, afterwards

    @property
    def wire(self) -> str:
        return self.setup["wire"]

    def events(self, kind: str) -> list[Step]:
        return [step for step in self.steps if step.event == kind]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Recording:
    data = json.loads((FOLDER / f"{name}.json").read_text())
    setup = data["setup"]
    files = setup.get("files_after", setup.get("files", {}))
    return Recording(name, setup, data["model"], list(join_deltas(_read(data["exchange"]))), deepcopy(files))


def _read(exchange: list[Json]) -> list[Step]:
    steps: list[Step] = []
    frames: list[Json] = []
    for entry in exchange:
        if "server" in entry:
            frames.append(entry["server"])
            continue
        steps += fold_frames(frames)
        frames = []
        if "client" in entry:
            steps.append(Step("client", entry["client"]))
        else:
            steps.append(Step("model", entry["model_request"]))
    return steps + fold_frames(frames)


def fold_frames(frames: Iterable[Json], *, twins: bool = True) -> list[Step]:
    """Frames of a server as steps, the two notifications of an event as one. Raises if one of them is missing.

    Without `twins` an event is `codex/event` only, and chunks of output are base64.
    """
    steps: list[Step] = []
    waiting = iter(frames)
    for frame in waiting:
        if "method" not in frame:
            steps.append(Step("response", frame))
        elif "id" in frame:
            steps.append(Step("request", frame))
        elif frame["method"] == "codex/event" and not twins:
            steps.append(Step("event", _with_plain_chunk(frame["params"])))
        elif frame["method"] == "codex/event":
            twin = next(waiting, None)
            method = frame["params"]["msg"]["type"]
            assert twin == frame | {"method": method}, f"codex/event {frame} is not followed by its twin but by {twin}"
            steps.append(Step("event", frame["params"]))
        else:
            steps.append(Step("notification", frame))
    return steps


def _with_plain_chunk(params: Json) -> Json:
    message = params["msg"]
    if message["type"] != OUTPUT_DELTA:
        return params
    return {**params, "msg": {**message, "chunk": list(base64.b64decode(message["chunk"], validate=True))}}


def join_deltas(steps: Iterable[Step]) -> Iterable[Step]:
    """Deltas of one kind that follow each other, joined; of a command's output one a stream, stdout first."""
    run: list[Step] = []
    for step in steps:
        if run and not _belongs(run[-1], step):
            yield from _join(run)
            run = []
        if step.event in TEXT_DELTAS or step.event == OUTPUT_DELTA:
            run.append(step)
        else:
            yield step
    yield from _join(run)


def _belongs(before: Step, step: Step) -> bool:
    same = {"_meta", "id"}
    return (
        step.event == before.event
        and all(step.value.get(key) == before.value.get(key) for key in same)
        and step.value["msg"].get("call_id") == before.value["msg"].get("call_id")
    )


def _join(run: list[Step]) -> Iterable[Step]:
    if not run:
        return
    if run[0].event in TEXT_DELTAS:
        text = "".join(step.value["msg"]["delta"] for step in run)
        yield _with(run[0], delta=text)
        return
    for stream in ("stdout", "stderr"):
        chunks = [step.value["msg"]["chunk"] for step in run if step.value["msg"]["stream"] == stream]
        if chunks:
            yield _with(run[0], stream=stream, chunk=_join_chunks(chunks))


def _join_chunks(chunks: list[Any]) -> Any:
    if len(chunks) == 1:
        return chunks[0]  # may be the recording's `<N bytes>`
    return [byte for chunk in chunks for byte in chunk]


def _with(step: Step, **fields: Any) -> Step:
    return Step("event", {**step.value, "msg": {**step.value["msg"], **fields}})
