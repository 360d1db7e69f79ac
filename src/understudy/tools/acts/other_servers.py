"""Calls a tool of another server: judged, perhaps asked about, its intent on disk, called once, its outcome recorded."""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from understudy.errors import ToolError
from understudy.policy.mcp_tools import NOT_ASKED, approval_key, judge_tool_call
from understudy.protocol.records import OWN_SERVER, Noticed, ToolApprovalAsked, ToolCallBegan, ToolCallEnded
from understudy.text import make_visible
from understudy.tools.calls import ToolOutput
from understudy.tools.host import PLANS, ToolHost
from understudy.tools.mcp.reading import MOST_NOTICES, NOTICE_SECONDS
from understudy.tools.mcp.remote_tool import RESOURCE_METHODS, RemoteTool
from understudy.tools.mcp.results import MODEL_BYTES, cut, images_of, model_text, recorded_arguments, recorded_result
from understudy.tools.mcp.server import Server
from understudy.tools.mcp.session import Lost, NoAnswerInTime, Refused
from understudy.tools.output import bytes_for

_LONGEST_NOTICE = 200
_MOST_RESOURCES = 200
_MOST_LISTED = 12_000


async def call_other_server(host: ToolHost, call_id: str, tool: RemoteTool, arguments: dict[str, Any]) -> ToolOutput:
    server = _server(host, tool.server)
    settings = host.settings
    key = approval_key(tool.server, tool.name, tool.definition)
    verdict = judge_tool_call(
        server.settings.mode_of(tool.name), settings.approval_policy, settings.sandbox_mode, read_only=tool.read_only
    )
    shown = recorded_arguments(arguments)
    changes = settings.plans and not tool.read_only
    if changes or verdict == "refuse":
        why = PLANS if changes else NOT_ASKED
        host.record(
            ToolCallBegan(call_id, tool.server, tool.name, shown, tool.read_only),
            ToolCallEnded(call_id, tool.server, tool.name, 0.0, shown, tool.read_only, error=why),
        )
        return ToolOutput(why, success=False)
    if verdict == "ask" and not host.is_approved(lambda: key):
        contained = server.settings.sandboxed and settings.containment is not None
        answer = await host.ask(ToolApprovalAsked(call_id, tool.server, tool.name, arguments or None, key, contained, tool.hints))
        if answer.decision not in ("approved", "approved_for_session"):
            raise ToolError(answer.refusal("tool call"))
    host.record(ToolCallBegan(call_id, tool.server, tool.name, shown, tool.read_only))
    await host.committed()
    notices = _Notices(host, f"{tool.server}: {tool.name}", server.redact)
    server.on_question = notices.question
    began = time.monotonic()
    ended = ToolCallEnded(call_id, tool.server, tool.name, 0.0, shown, tool.read_only)
    try:
        raw = await server.call(tool, arguments, notices.progress)
    except (Lost, NoAnswerInTime, Refused) as error:
        return _failed(host, ended, began, server, error)
    except BaseException:
        host.record(_with(ended, began, error="the call was cancelled; whether it took effect is not known"))
        raise
    finally:
        server.on_question = None
    host.record(_with(ended, began, result=recorded_result(raw, server.redact)))
    images, problems = images_of(raw)
    most = bytes_for(settings.output_tokens, MODEL_BYTES)
    text = "\n".join((*(part for part in (model_text(raw, server.redact, most),) if part), *problems))
    return ToolOutput(text or ("" if images else "(the tool gave nothing)"), raw.get("isError") is not True, images)


async def use_resources(host: ToolHost, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutput:
    """List or read resources: shown as a tool of ours. If all tools of a server need a question, so does this."""
    asked = arguments.get("server")
    servers = [_server(host, asked)] if asked else [each for each in _all(host) if each.available and each.has_resources]
    if name == "read_mcp_resource" and not asked:
        raise ToolError("failed to parse function arguments: missing field `server`")
    settings = host.settings
    for server in servers:
        mode = server.settings.approval_mode
        if judge_tool_call(mode, settings.approval_policy, settings.sandbox_mode, read_only=True) != "run":
            question = ToolApprovalAsked(call_id, server.name, name, arguments, approval_key(server.name, name, ""))
            if settings.approval_policy == "never":
                raise ToolError(NOT_ASKED)
            if not host.is_approved(lambda key=question.key or "": key):
                answer = await host.ask(question)
                if answer.decision not in ("approved", "approved_for_session"):
                    raise ToolError(answer.refusal("tool call"))
    shown = recorded_arguments(arguments)
    host.record(ToolCallBegan(call_id, OWN_SERVER, name, shown, read_only=True))
    await host.committed()
    began = time.monotonic()
    ended = ToolCallEnded(call_id, OWN_SERVER, name, 0.0, shown, read_only=True)
    params = {key: arguments[key] for key in ("uri", "cursor") if arguments.get(key)}
    texts: list[str] = []
    failed = False
    try:
        for server in servers:
            try:
                raw = await server.request(RESOURCE_METHODS[name], params)
            except (Lost, NoAnswerInTime, Refused) as error:
                failed = True
                texts.append(f"{server.name}: {server.redact(str(error))}")
            else:
                texts.append(_resources(server, name, raw))
    except BaseException:
        host.record(_with(ended, began, error="the call was cancelled"))
        raise
    text = "\n".join(texts) or "No MCP server has resources."
    content = {"content": [{"type": "text", "text": text}]}
    host.record(_with(ended, began, result={**content, "isError": True} if failed else content))
    return ToolOutput(text, not failed)


def _resources(server: Server, name: str, raw: Mapping[str, Any]) -> str:
    if name == "read_mcp_resource":
        contents = raw.get("contents")
        given = cast(list[Any], contents) if isinstance(contents, list) else []
        return model_text({"content": [_as_part(resource) for resource in given]}, server.redact)
    listed = raw.get("resources", raw.get("resourceTemplates"))
    found = cast(list[Any], listed) if isinstance(listed, list) else []
    told: dict[str, Any] = {"server": server.name, "resources": found[:_MOST_RESOURCES]}
    if isinstance(cursor := raw.get("nextCursor"), str):
        told["nextCursor"] = cursor
    return cut(server.redact(msgspec.json.encode(told).decode()), _MOST_LISTED)


def _as_part(resource: object) -> dict[str, Any]:
    match resource:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case _:
            return {"type": "resource", "resource": resource}


class _Notices:
    """Passes on a server's progress messages now and then; only the first few of a server that never stops."""

    def __init__(self, host: ToolHost, name: str, redact: Callable[[str], str]) -> None:
        self._host = host
        self._name = name
        self._redact = redact
        self._last = 0.0
        self._left = MOST_NOTICES

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now - self._last < NOTICE_SECONDS:
            return
        self._last = now
        of = f" of {total:g}" if total else ""
        self._tell(f"{progress:g}{of}" + (f": {message}" if message else ""))

    def question(self, message: str) -> None:
        self._tell(f"asks something that was declined, because a server's questions are not passed on: {message}")

    def _tell(self, text: str) -> None:
        if self._left > 0:
            self._left -= 1
            line = " ".join(f"{self._name}: {self._redact(text)}".split())
            self._host.record(Noticed(make_visible(line[:_LONGEST_NOTICE])))


def _failed(host: ToolHost, ended: ToolCallEnded, began: float, server: Server, error: Exception) -> ToolOutput:
    cause = "Transport closed" if isinstance(error, Lost) and not str(error) else server.redact(str(error))
    text = f"tool call error: tool call failed for `{ended.server}/{ended.tool}`\n\nCaused by:\n    {cause}"
    host.record(_with(ended, began, error=text))
    return ToolOutput(text, success=False)


def _with(ended: ToolCallEnded, began: float, **outcome: Any) -> ToolCallEnded:
    return msgspec.structs.replace(ended, seconds=time.monotonic() - began, **outcome)


def _all(host: ToolHost) -> tuple[Server, ...]:
    return () if host.servers is None else tuple(host.servers.servers.values())


def _server(host: ToolHost, name: str) -> Server:
    found = None if host.servers is None else host.servers.servers.get(name)
    if found is None:
        there = ", ".join(f"`{each.name}`" for each in _all(host))
        raise ToolError(f"there is no MCP server `{make_visible(name[:100])}`" + (f"; there are {there}" if there else ""))
    return found
