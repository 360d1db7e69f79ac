"""A hook as lists show it: in the shape of codex's `hooks/list`."""

from typing import Any

from understudy.engine.hooks.loading import JudgedHook, Standing

_STANDINGS: dict[Standing, str] = {"user": "trusted", "trusted": "trusted", "untrusted": "untrusted", "modified": "modified"}


def row_of(judged: JudgedHook, order: int) -> dict[str, Any]:
    hook = judged.hook
    return {
        "key": hook.key,
        "eventName": camel(hook.event),
        "handlerType": "command",
        "command": hook.command,
        "async": hook.detached,
        "matcher": hook.matcher,
        "timeoutSec": int(hook.seconds) if hook.seconds == int(hook.seconds) else hook.seconds,
        "statusMessage": hook.status_message,
        "additionalContextLimit": None,
        "sourcePath": hook.file.path,
        "source": hook.file.source,
        "pluginId": None,
        "environmentId": None,
        "displayOrder": order,
        "enabled": judged.enabled,
        "isManaged": False,
        "currentHash": judged.digest,
        "trustStatus": _STANDINGS[judged.standing],
    }


def camel(event: str) -> str:
    return f"{event[0].lower()}{event[1:]}"
