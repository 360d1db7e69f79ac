"""The closed sets of values that people and clients choose from."""

from typing import Literal, get_args

ApprovalPolicy = Literal["untrusted", "on-failure", "on-request", "never"]
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
Mode = Literal["default", "plan"]  # plan: nothing is changed until the user has agreed to a plan
NetworkMode = Literal["off", "loopback", "on"]
Decision = Literal["approved", "approved_for_session", "denied", "abort"]
OutputStream = Literal["stdout", "stderr"]
BudgetLimit = Literal["tokens", "cost_usd", "seconds", "requests"]
PersonLimit = Literal["tokens", "cost_usd", "requests"]
Period = Literal["day", "week", "month"]
PlanStatus = Literal["pending", "in_progress", "completed"]

APPROVAL_POLICIES: tuple[str, ...] = get_args(ApprovalPolicy)
SANDBOX_MODES: tuple[str, ...] = get_args(SandboxMode)
NETWORK_MODES: tuple[str, ...] = get_args(NetworkMode)
BUDGET_LIMITS: tuple[BudgetLimit, ...] = get_args(BudgetLimit)
PERSON_LIMITS: tuple[PersonLimit, ...] = get_args(PersonLimit)
PERIODS: tuple[Period, ...] = get_args(Period)
DECISIONS: tuple[str, ...] = get_args(Decision)

SearchRole = Literal["user", "assistant", "command", "patch", "tool"]
SEARCH_ROLES: tuple[SearchRole, ...] = get_args(SearchRole)
