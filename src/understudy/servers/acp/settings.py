"""The modes and config options that an editor can choose for a session, and their meaning in our configuration."""

import msgspec

from understudy.config.model import Config
from understudy.config.providers import BY_ID
from understudy.models.families import EFFORTS, family_of
from understudy.models.prices import models_of
from understudy.protocol.choices import APPROVAL_POLICIES, SandboxMode
from understudy.protocol.records import Overrides
from understudy.servers.acp.content import Json
from understudy.servers.failures import InvalidParams

FULL_ACCESS = "full-access"
PLAN = "plan"
MODES: dict[str, tuple[str, str]] = {
    "untrusted": ("Ask for most", "asks before every command that is not known to be harmless, and before every patch"),
    "on-failure": ("Ask on failure", "runs in the sandbox, and asks where the sandbox refused something"),
    "on-request": ("Ask on request", "runs in the sandbox, and asks where the model wants to leave it"),
    "never": ("Never ask", "runs in the sandbox; what would leave it is refused"),
    PLAN: ("Plan", "changes nothing until you have accepted a plan"),
    FULL_ACCESS: ("Full access", "asks nothing and has no sandbox: all rights of the account that runs understudy"),
}
_USUAL_EFFORTS = ("low", "medium", "high")


FULL_SANDBOX: SandboxMode = "danger-full-access"


def mode_of(config: Config) -> str:
    policy = config.approval_policy
    if config.plans:
        return PLAN
    return FULL_ACCESS if policy == "never" and config.sandbox.mode == FULL_SANDBOX else policy


def mode_overrides(mode: str, sandbox: SandboxMode | None) -> Overrides:
    """`sandbox`: the mode to return to from full access; None: no change. Raises `InvalidParams`."""
    if mode == PLAN:
        return Overrides(mode="plan")
    if mode == FULL_ACCESS:
        return Overrides(approval_policy="never", sandbox=FULL_SANDBOX, mode="default")
    if mode not in APPROVAL_POLICIES:
        raise InvalidParams(f"Invalid params: there is no mode {mode[:100]!r}; it can be {', '.join(MODES)}")
    return msgspec.convert({"approval_policy": mode, "sandbox": sandbox, "mode": "default"}, Overrides)


def modes(config: Config) -> Json:
    available = [{"id": mode, "name": name, "description": told} for mode, (name, told) in MODES.items()]
    return {"currentModeId": mode_of(config), "availableModes": available}


def config_options(config: Config) -> list[Json]:
    """All options with their current values: the answer to a change has the whole list."""
    return [
        _select("mode", "Mode", "mode", mode_of(config), {mode: name for mode, (name, _) in MODES.items()}),
        _select("model", "Model", "model", config.model, {name: name for name in _models(config)}),
        _select(
            "effort", "Reasoning effort", "thought_level", config.model_reasoning_effort, {word: word for word in _efforts(config)}
        ),
    ]


def option_overrides(config: Config, config_id: str, value: str, sandbox: SandboxMode | None) -> Overrides:
    """Raises `InvalidParams`."""
    match config_id:
        case "mode":
            return mode_overrides(value, sandbox)
        case "model":
            if not value.strip():
                raise InvalidParams("Invalid params: a model has a name")
            return Overrides(model=value)
        case "effort":
            levels = _efforts(config)
            if value not in levels:
                raise InvalidParams(f"Invalid params: `effort` can be {', '.join(levels)}, not {value[:100]!r}")
            return Overrides(config={"model_reasoning_effort": value})
        case _:
            raise InvalidParams(f"Invalid params: there is no option {config_id[:100]!r}; it can be mode, model, effort")


def _models(config: Config) -> list[str]:
    """The model in use, then the known models of its provider. The provider is not asked, because an editor waits for this."""
    row = BY_ID.get(config.model_provider)
    known = (row.default_model, *models_of(row.vendors)) if row is not None else ()
    return list(dict.fromkeys((config.model, *known)))


def _efforts(config: Config) -> list[str]:
    family = family_of(config.model)
    levels = [level for level in EFFORTS if level in (family.efforts or _USUAL_EFFORTS)]
    effort = config.model_reasoning_effort
    return levels if effort in levels else [effort, *levels]


def _select(config_id: str, name: str, category: str, value: str, options: dict[str, str]) -> Json:
    return {
        "id": config_id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": [{"value": option, "name": shown} for option, shown in options.items()],
    }
