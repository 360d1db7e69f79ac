"""The methods of ACP, version 1. Every other one is answered with -32601."""

from understudy import __version__
from understudy.protocol.jsonrpc import Request
from understudy.servers.acp import params, prompting, sessions
from understudy.servers.acp.content import Json
from understudy.servers.acp.editor_peer import EditorPeer
from understudy.servers.acp.requests import Handler
from understudy.servers.failures import InvalidParams, InvalidRequest

VERSION = 1


async def initialize(client: EditorPeer, request: Request) -> Json:
    """A client that knows a later version is answered with ours, and goes on or hangs up."""
    if client.initialized:
        raise InvalidRequest("initialize was called before; it is called once")
    asked = params.read(params.Initialize, request.params)
    client.gives_texts = _gives_texts(asked.client_capabilities)
    client.has_forms = _has_forms(asked.client_capabilities)
    client.initialized = True
    return {
        "protocolVersion": VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
        "agentInfo": {"name": "understudy", "title": "Understudy", "version": __version__},
    }


def _has_forms(capabilities: Json | None) -> bool:
    match capabilities:
        case {"elicitation": {"form": form}} if form not in (None, False):
            return True
        case _:
            return False


def _gives_texts(capabilities: Json | None) -> bool:
    match capabilities:
        case {"fs": {"readTextFile": True}}:
            return True
        case _:
            return False


async def authenticate(client: EditorPeer, request: Request) -> Json:
    raise InvalidParams("Invalid params: there is nothing to log in to here; `understudy login` stores a provider's key")


METHODS: dict[str, Handler] = {
    "initialize": initialize,
    "authenticate": authenticate,
    "session/new": sessions.new,
    "session/load": sessions.load,
    "session/resume": sessions.resume,
    "session/list": sessions.list_sessions,
    "session/close": sessions.close,
    "session/delete": sessions.delete,
    "session/set_mode": sessions.set_mode,
    "session/set_config_option": sessions.set_config_option,
    "session/prompt": prompting.prompt,
}
