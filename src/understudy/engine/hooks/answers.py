"""What a hook's exit code and output mean, depending on its event and the family of its file. Pure.

An invalid answer means that a guard has failed: it says neither yes nor no, so a person must be asked. docs/hooks.md says what the
two programs do instead, and why we differ.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec

from understudy.config.hooks.entries import Event, Family

Status = Literal["completed", "blocked", "failed", "stopped"]
Decision = Literal["none", "allow", "ask", "deny"]
EntryKind = Literal["feedback", "error", "context", "warning", "stop"]

LONGEST = 10_000  # characters of any text from a hook
NO_REASON = "Blocked by hook"
_KNOWN = frozenset(("continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput"))
_PERMITS = ("allow", "ask", "deny")


class Ran(msgspec.Struct, frozen=True):
    """How the process of a hook ended."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    problem: str | None = None  # why it gave no answer: it ran out of time, said too much, or could not be started
    seconds: float = 0.0


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook wants."""

    status: Status = "completed"
    decision: Decision = "none"
    reason: str = ""
    changed: Mapping[str, Any] | None = None  # the new arguments of the call
    context: str = ""  # for the model
    warning: str = ""  # for the user
    output: Any = None  # given to the model in place of the tool's output
    ends_turn: bool = False


class _Wrong(Exception):
    """The answer contains something that cannot be applied."""


def read_answer(event: Event, family: Family, ran: Ran) -> HookAnswer:
    """Never raises: an answer that makes no sense counts as a failure."""
    if ran.problem is not None:
        return failed(event, ran.problem)
    if ran.exit_code == 2:
        return _blocked_by_exit(event, family, ran)
    text = ran.stdout.strip()
    if ran.exit_code != 0:
        answer = _read_text(event, family, text)
        if answer.decision == "deny":  # Claude Code obeys it too
            return answer
        said = ran.stderr.strip()
        return failed(event, f"it exited with code {ran.exit_code}" + (f": {_cut(said)}" if said else ""))
    return _read_text(event, family, text)


def _read_text(event: Event, family: Family, text: str) -> HookAnswer:
    if not text.startswith(("{", "[")):
        return _plain_text(event, text)
    try:
        return _BY_EVENT[event](_read_json(text), family, event)
    except _Wrong as wrong:
        return failed(event, str(wrong))


def failed(event: Event, why: str) -> HookAnswer:
    """A failed guard leads to a question; any other failure is reported, and the turn continues."""
    guards = event in ("PreToolUse", "UserPromptSubmit")
    return HookAnswer(status="failed", decision="ask" if guards else "none", reason=_cut(why))


def _blocked_by_exit(event: Event, family: Family, ran: Ran) -> HookAnswer:
    words = _cut(ran.stderr.strip() or _plain(ran.stdout) or NO_REASON)
    if event == "SessionStart" or (event == "PermissionRequest" and family == "claude"):
        return failed(event, f"it exited with code 2: {words}")
    return HookAnswer(status="blocked", decision="deny", reason=words)


def _plain_text(event: Event, text: str) -> HookAnswer:
    if event in ("UserPromptSubmit", "SessionStart"):
        return HookAnswer(context=_cut(text))
    return HookAnswer()


def _plain(text: str) -> str:
    text = text.strip()
    return "" if text.startswith(("{", "[")) else text


def _read_json(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise _Wrong("it printed something that begins like JSON and is none") from None
    if not isinstance(value, dict):
        raise _Wrong("it printed JSON that is no object")
    said = cast(dict[str, Any], value)
    if said and _KNOWN.isdisjoint(said):
        raise _Wrong("it printed JSON in which nothing is known")
    return said


def _common(said: dict[str, Any]) -> HookAnswer:
    return HookAnswer(warning=_cut(_text(said, "systemMessage")))


def _specific(said: dict[str, Any], event: Event) -> dict[str, Any]:
    """`hookSpecificOutput`. If it is meant for another event, it is an error rather than ignored, since it may be a slip."""
    value = said.get("hookSpecificOutput")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong("its `hookSpecificOutput` is no object")
    specific = cast(dict[str, Any], value)
    if not _says_no(specific) and not (event == "PreToolUse" and "permissionDecision" in specific):
        _check_event(specific, event)
    return specific


def _check_event(specific: Mapping[str, Any], event: Event) -> None:
    named = specific.get("hookEventName")
    if named not in (None, event):
        raise _Wrong(f"its `hookEventName` is {named!r}, and not {event}")


def _says_no(specific: Mapping[str, Any]) -> bool:
    """Whether it says no in the words of any event: a clear no counts, whatever event it was printed for."""
    decision = specific.get("decision")
    behaves = cast(Mapping[str, Any], decision).get("behavior") if isinstance(decision, Mapping) else decision
    return specific.get("permissionDecision") == "deny" or behaves in ("deny", "block")


def _reason_of(said: Mapping[str, Any], specific: Mapping[str, Any]) -> str:
    """The reason, from whichever place it is in."""
    decision = specific.get("decision")
    inner: Mapping[str, Any] = cast(Mapping[str, Any], decision) if isinstance(decision, Mapping) else {}
    texts = (specific.get("permissionDecisionReason"), inner.get("message"), specific.get("reason"), said.get("reason"))
    return next((text for text in texts if isinstance(text, str) and text), "")


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Wrong(f"its `{key}` is no text")
    return value


def _stops(said: dict[str, Any]) -> bool:
    value = said.get("continue")
    if value is not None and not isinstance(value, bool):
        raise _Wrong("its `continue` is neither true nor false")
    return value is False


def _blocks(said: dict[str, Any], *, may_approve: bool = False) -> bool:
    decision = said.get("decision")
    if decision is None or (decision == "approve" and may_approve):
        return False
    if decision in ("block", "deny"):
        return True
    raise _Wrong(f"its `decision` {decision!r} is not known")


def _pre_tool_use(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    permission = specific.get("permissionDecision")
    reason = _text(specific, "permissionDecisionReason") or _text(said, "reason")
    if _says_no(specific):
        return _denied(answer, _reason_of(said, specific))
    if _blocks(said, may_approve=True):
        return _denied(answer, reason)
    if _stops(said):
        return _denied(answer, _text(said, "stopReason") or reason)
    if permission is not None and permission not in _PERMITS:
        raise _Wrong(f"its `permissionDecision` {permission!r} is not known")
    changed = specific.get("updatedInput")
    if changed is not None and not isinstance(changed, dict):
        raise _Wrong("its `updatedInput` is no object")
    if changed is not None and family == "codex" and permission != "allow":
        raise _Wrong("it gives `updatedInput` without `permissionDecision: allow`")
    if permission != "ask":
        _check_event(specific, event)
    return msgspec.structs.replace(
        answer,
        decision=permission or "none",
        reason=_cut(reason),
        changed=cast(Mapping[str, Any], changed),
        context=_cut(_text(specific, "additionalContext")),
    )


def _denied(answer: HookAnswer, reason: str) -> HookAnswer:
    return msgspec.structs.replace(answer, status="blocked", decision="deny", reason=_cut(reason) or NO_REASON)


def _permission_request(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    decided = specific.get("decision")
    if _says_no(specific) and not isinstance(decided, dict):
        return _denied(answer, _reason_of(said, specific))
    if decided is None:
        return _denied(answer, _text(said, "reason")) if _blocks(said, may_approve=True) else answer
    if not isinstance(decided, dict):
        raise _Wrong("its `decision` is no object")
    decision = cast(dict[str, Any], decided)
    if decision.get("behavior") == "deny":
        denied = _denied(answer, _text(decision, "message") or "PermissionRequest hook denied approval")
        return msgspec.structs.replace(denied, ends_turn=family == "claude" and decision.get("interrupt") is True)
    if decision.get("behavior") != "allow":
        raise _Wrong(f"its `behavior` {decision.get('behavior')!r} is not known")
    if unknown := sorted(set(decision) - {"behavior", "message", "updatedPermissions"}):
        raise _Wrong(f"with `behavior: allow` it gives `{unknown[0]}`, which is not taken here: change the call in PreToolUse")
    return msgspec.structs.replace(answer, decision="allow")


def _user_prompt_submit(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    if _says_no(specific):
        return _denied(answer, _reason_of(said, specific))
    if _blocks(said):
        return _denied(answer, _text(said, "reason"))
    if _stops(said):
        return _stopped(answer, said, "deny")
    if (permission := specific.get("permissionDecision")) not in (None, "allow"):
        raise _Wrong(f"its `permissionDecision` is {permission!r}, which is none of this event")
    return msgspec.structs.replace(answer, context=_cut(_text(specific, "additionalContext")))


def _stopped(answer: HookAnswer, said: dict[str, Any], decision: Decision) -> HookAnswer:
    reason = _cut(_text(said, "stopReason")) or "stopped by a hook"
    return msgspec.structs.replace(answer, status="stopped", decision=decision, reason=reason, ends_turn=True)


def _stop(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer = _common(said)
    if _stops(said):
        return _stopped(answer, said, "none")
    return _denied(answer, _text(said, "reason")) if _blocks(said, may_approve=True) else answer


def _session_start(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    return msgspec.structs.replace(answer, context=_cut(_text(specific, "additionalContext")))


def _pre_compact(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    if _says_no(specific):
        return _denied(answer, _reason_of(said, specific))
    if _stops(said):
        return _denied(answer, _text(said, "stopReason"))
    return _denied(answer, _text(said, "reason")) if _blocks(said) else answer


def _post_tool_use(said: dict[str, Any], family: Family, event: Event) -> HookAnswer:
    answer, specific = _common(said), _specific(said, event)
    answer = msgspec.structs.replace(answer, context=_cut(_text(specific, "additionalContext")))
    if _stops(said):
        stopped = _stopped(answer, said, "deny")
        return msgspec.structs.replace(stopped, ends_turn=family == "claude")
    if _blocks(said, may_approve=True):
        return _denied(answer, _text(said, "reason"))
    output = specific.get("updatedToolOutput", specific.get("updatedMCPToolOutput"))
    if output is not None and family == "codex":
        raise _Wrong("it gives another output, which hooks of codex cannot")
    return msgspec.structs.replace(answer, output=output)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[... {len(text) - LONGEST} more characters ...]"


_BY_EVENT: Mapping[Event, Callable[[dict[str, Any], Family, Event], HookAnswer]] = {
    "PreToolUse": _pre_tool_use,
    "PermissionRequest": _permission_request,
    "UserPromptSubmit": _user_prompt_submit,
    "Stop": _stop,
    "SessionStart": _session_start,
    "PreCompact": _pre_compact,
    "PostToolUse": _post_tool_use,
    "PostToolUseFailure": _post_tool_use,
}
