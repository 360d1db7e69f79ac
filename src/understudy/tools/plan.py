"""`update_plan`: the model tells its plan, which is only recorded."""

import msgspec

from understudy.protocol.choices import PlanStatus
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import PlanStep, PlanUpdated
from understudy.tools.calls import ToolOutput, read_arguments
from understudy.tools.tool import ToolContext


class StepParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    step: str
    status: PlanStatus


class PlanParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: tuple[StepParams, ...]
    explanation: str | None = None


class UpdatePlan:
    name = "update_plan"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, PlanParams, "UpdatePlanArgs")
        steps = tuple(PlanStep(step.step, step.status) for step in params.plan)
        context.show_plan(PlanUpdated(steps, params.explanation))
        return ToolOutput("Plan updated")
