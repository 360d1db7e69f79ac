"""A thread as the app server's clients see it, and the answers that carry one."""

from collections.abc import Sequence

from understudy.config.model import Config
from understudy.engine.title import NO_TITLE, title_from
from understudy.protocol.items import Message
from understudy.servers.app_server.settings import active_profile, approval_policy, sandbox_object
from understudy.servers.app_server.wire import Json
from understudy.servers.codex_version import CODEX_VERSION
from understudy.store.log import Listed, Status

LONGEST_PREVIEW = 1000  # characters of the first message
SOURCE = "vscode"  # which the protocol says of every client of the app server

IDLE: Json = {"type": "idle"}
NOT_LOADED: Json = {"type": "notLoaded"}


def thread_object(
    thread_id: str,
    *,
    cwd: str,
    model: str,
    provider: str,
    effort: str | None,
    status: Json,
    created_at: float,
    updated_at: float,
    preview: str = "",
    name: str | None = None,
    forked_from: str | None = None,
    ephemeral: bool = False,
    originator: str | None = None,
    thread_source: str | None = None,
    turns: Sequence[Json] = (),
) -> Json:
    return {
        "id": thread_id,
        "environments": [{"environmentId": "local", "cwd": cwd, "runtimeWorkspaceRoots": [cwd]}],
        "extra": None,
        "sessionId": thread_id,
        "forkedFromId": forked_from,
        "parentThreadId": None,
        "preview": preview,
        "ephemeral": ephemeral,
        "section": None,
        "sectionEnteredAt": None,
        "projectId": None,
        "historyMode": "paginated",
        "modelProvider": provider,
        "model": model,
        "reasoningEffort": effort,
        "createdAt": int(created_at),
        "updatedAt": int(updated_at),
        "recencyAt": int(updated_at),
        "status": status,
        "path": None,  # conversations are in one store, not in files of their own
        "cwd": cwd,
        "cliVersion": CODEX_VERSION,
        "originator": originator,
        "source": SOURCE,
        "canAcceptDirectInput": True,
        "threadSource": thread_source,
        "agentNickname": None,
        "agentRole": None,
        "gitInfo": None,
        "name": name,
        "daybreakEnabled": None,
        "turns": list(turns),
    }


def listed_thread(listed: Listed, status: Json, provider: str, message: Message | None) -> Json:
    """`message`: its first one, of which its title is made unless somebody has given it a name."""
    summary = listed.summary
    is_named = message is not None and summary.title not in (title_from(message), NO_TITLE)
    return thread_object(
        listed.conversation_id,
        cwd=summary.cwd,
        model=summary.model,
        provider=provider,
        effort=None,
        status=status,
        created_at=listed.created_at,
        updated_at=listed.updated_at,
        preview="" if message is None else message.text()[:LONGEST_PREVIEW],
        name=summary.title if is_named else None,
        thread_source=summary.thread_source,
    )


def status_of(status: Status, *, loaded: bool) -> Json:
    match status:
        case "idle":
            return IDLE if loaded else NOT_LOADED
        case "running":
            return {"type": "active", "activeFlags": []}
        case "waiting":
            return {"type": "active", "activeFlags": ["waitingOnApproval"]}


def opened_thread(thread: Json, config: Config) -> Json:
    """The answer of `thread/start`, `thread/resume` and `thread/fork`: the thread, and what its next turn would run with."""
    cwd = str(config.cwd)
    return {
        "thread": thread,
        "model": config.model,
        "modelProvider": config.model_provider,
        "serviceTier": None,
        "disabledPluginIds": [],
        "cwd": cwd,
        "runtimeWorkspaceRoots": [cwd],
        "instructionSources": [],
        "approvalPolicy": approval_policy(config),
        "approvalsReviewer": "user",
        "sandbox": sandbox_object(config),
        "activePermissionProfile": active_profile(config),
        "reasoningEffort": config.model_reasoning_effort,
        "multiAgentMode": "explicitRequestOnly",
    }
