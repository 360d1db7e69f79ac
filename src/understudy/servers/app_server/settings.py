"""Turns a client's choices for a thread or turn into overrides of our configuration, and shows the resulting settings."""

from typing import Any

from understudy.config.model import Config
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.protocol.records import Overrides
from understudy.servers.app_server.params import Granular, SandboxPolicy, Settings, TurnSettings
from understudy.servers.app_server.wire import Json
from understudy.servers.arguments import MOST_NESTED, table
from understudy.servers.failures import InvalidParams

PROFILES: dict[str, SandboxMode] = {
    ":read-only": "read-only",
    ":workspace": "workspace-write",
    ":danger-full-access": "danger-full-access",
}
_POLICIES: dict[str, SandboxMode] = {
    "readOnly": "read-only",
    "workspaceWrite": "workspace-write",
    "dangerFullAccess": "danger-full-access",
}
_WORKSPACE = "sandbox_workspace_write"


def _policy(chosen: ApprovalPolicy | Granular | None) -> ApprovalPolicy | None:
    return chosen.nearest() if isinstance(chosen, Granular) else chosen


def thread_overrides(params: Settings, *, ephemeral: bool | None = None) -> Overrides:
    """Overrides of `thread/start` and similar methods. Raises `InvalidParams`."""
    config = _config(params.config)
    if params.model_provider is not None:
        config["model_provider"] = params.model_provider
    if ephemeral is not None and ephemeral:
        config["history.persistence"] = "none"
    return Overrides(
        model=params.model,
        cwd=params.cwd,
        approval_policy=_policy(params.approval_policy),
        sandbox=params.sandbox or _profile(params.permissions),
        config=config or None,
        base_instructions=params.base_instructions,
        developer_instructions=params.developer_instructions,
    )


def turn_overrides(params: TurnSettings) -> Overrides | None:
    """Overrides of `turn/start`, from this turn on. None if nothing is chosen. Raises `InvalidParams`."""
    config: dict[str, Any] = {}
    if params.effort is not None:
        config["model_reasoning_effort"] = params.effort
    if params.summary is not None:
        config["model_reasoning_summary"] = params.summary
    chosen_mode = params.collaboration_mode
    told = None if chosen_mode is None else chosen_mode.settings
    if told is not None and told.reasoning_effort is not None:
        config["model_reasoning_effort"] = told.reasoning_effort
    mode = _profile(params.permissions)
    if params.sandbox_policy is not None:
        mode = _read_policy(params.sandbox_policy, config)
    chosen = Overrides(
        model=params.model or (None if told is None else told.model),
        cwd=params.cwd,
        approval_policy=_policy(params.approval_policy),
        sandbox=mode,
        config=config or None,
        developer_instructions=None if told is None else told.developer_instructions,
        mode=None if chosen_mode is None else chosen_mode.mode,
    )
    return None if chosen == Overrides() else chosen


def _config(given: dict[str, Any] | None) -> dict[str, Any]:
    if given is not None and table(given) is not None:
        raise InvalidParams(f"Invalid params: `config` has more than {MOST_NESTED} levels")
    return dict(given or {})


def _profile(name: str | None) -> SandboxMode | None:
    if name is None:
        return None
    if name not in PROFILES:
        raise InvalidParams(f"Invalid params: `permissions` is {name!r}; it can be {', '.join(PROFILES)}")
    return PROFILES[name]


def _read_policy(policy: SandboxPolicy, config: dict[str, Any]) -> SandboxMode:
    mode = _POLICIES.get(policy.type)
    if mode is None:
        raise InvalidParams(f"Invalid params: `sandboxPolicy.type` is {policy.type!r}; it can be {', '.join(_POLICIES)}")
    if mode == "workspace-write":
        config |= {
            f"{_WORKSPACE}.writable_roots": policy.writable_roots or [],
            f"{_WORKSPACE}.network_access": policy.network_access is True,
            f"{_WORKSPACE}.exclude_tmpdir_env_var": bool(policy.exclude_tmpdir_env_var),
            f"{_WORKSPACE}.exclude_slash_tmp": bool(policy.exclude_slash_tmp),
        }
    return mode


# -- settings in force


def config_of(engine: Engine, handle: Handle, chosen: Overrides | None = None) -> Config:
    """The configuration of the next turn if it began with these choices. Raises `ConfigError`."""
    return handle.setup().config if chosen is None else engine.configure(handle.with_changes(chosen))


def sandbox_object(config: Config) -> Json:
    sandbox = config.sandbox
    network = sandbox.network == "on"
    match sandbox.mode:
        case "danger-full-access":
            return {"type": "dangerFullAccess"}
        case "read-only":
            return {"type": "readOnly", "networkAccess": network}
        case "workspace-write":
            return {
                "type": "workspaceWrite",
                "writableRoots": [str(root) for root in sandbox.writable_roots],
                "networkAccess": network,
                "excludeTmpdirEnvVar": sandbox.exclude_tmpdir_env_var,
                "excludeSlashTmp": sandbox.exclude_slash_tmp,
            }


def approval_policy(config: Config) -> str:
    """The protocol no longer has `on-failure`; questions are then asked as with `on-request`."""
    return "on-request" if config.approval_policy == "on-failure" else config.approval_policy


def active_profile(config: Config) -> Json | None:
    name = next((name for name, mode in PROFILES.items() if mode == config.sandbox.mode), None)
    return None if name is None or name == ":danger-full-access" else {"id": name, "extends": None}


def thread_settings(config: Config) -> Json:
    """The params of `thread/settings/updated`."""
    effort = config.model_reasoning_effort
    mode: Json = {"model": config.model, "reasoning_effort": effort, "developer_instructions": None}
    return {
        "cwd": str(config.cwd),
        "approvalPolicy": approval_policy(config),
        "approvalsReviewer": "user",
        "sandboxPolicy": sandbox_object(config),
        "activePermissionProfile": None,
        "model": config.model,
        "modelProvider": config.model_provider,
        "effort": effort,
        "summary": config.model_reasoning_summary,
        "collaborationMode": {"mode": "plan" if config.plans else "default", "settings": mode},
        "personality": None,
    }
