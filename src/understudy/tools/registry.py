"""The tools there are, and how they are offered to a model. The descriptions are ours, beside this file."""

from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.models.prompt import ToolSpec
from understudy.protocol.choices import ApprovalPolicy, SandboxMode

if TYPE_CHECKING:
    from understudy.tools.tool import Tool

NAMES = ("shell", "container.exec", "apply_patch", "update_plan")


@lru_cache(maxsize=16)  # a model may make up any number of names
def find_tool(name: str) -> "Tool | None":
    """The tool of that name, loaded when it is first asked for; None if there is none."""
    match name:
        case "shell" | "container.exec":
            from understudy.tools.shell import Shell

            return Shell(name)
        case "apply_patch":
            from understudy.tools.apply_patch import ApplyPatch

            return ApplyPatch()
        case "update_plan":
            from understudy.tools.plan import UpdatePlan

            return UpdatePlan()
        case _:
            return None


def load_tools() -> Iterator[None]:
    """Have them ready before a model calls one, one after the other."""
    for name in NAMES:
        find_tool(name)
        yield


@cache
def offered(policy: ApprovalPolicy, mode: SandboxMode, *, with_plan: bool) -> tuple[ToolSpec, ...]:
    """The same for every request of a session, so that a provider can keep the beginning of the prompt."""
    escalation = policy == "on-request" and mode != "danger-full-access"
    plan = (ToolSpec("update_plan", _text("update_plan"), _PLAN),) if with_plan else ()
    shell = ToolSpec("shell", _text("shell_escalation" if escalation else "shell"), _shell_parameters(escalation))
    return (shell, *plan, ToolSpec("apply_patch", _text("apply_patch"), _PATCH))


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name("descriptions").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text_property(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _shell_parameters(escalation: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'Program and arguments, run as they stand. For shell syntax give ["bash", "-lc", "…"].',
        },
        "workdir": _text_property("Folder to run it in; a relative one starts at the working directory."),
        "timeout": {"type": "number", "description": "Milliseconds after which it is ended. Default 10000."},
    }
    if escalation:
        properties["with_escalated_permissions"] = {
            "type": "boolean",
            "description": "True to run it outside the sandbox. The user is asked first.",
        }
        properties["justification"] = _text_property("With escalated permissions: one sentence for the user on why it is needed.")
    return _object(dict(sorted(properties.items())), ["command"])


_STEP = _object(
    {"status": _text_property("pending, in_progress or completed"), "step": _text_property("The step, in a few words.")},
    ["step", "status"],
)
_PLAN = _object(
    {
        "explanation": _text_property("Why the plan changed, if it did."),
        "plan": {"type": "array", "items": _STEP, "description": "All steps, in order."},
    },
    ["plan"],
)
_PATCH = _object({"input": _text_property("The whole patch, from *** Begin Patch to *** End Patch.")}, ["input"])
