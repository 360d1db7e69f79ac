"""A thread as the app server's clients see it: the answers that hold one, and its history, made from the log by the same projection
that shows live events.
"""

import asyncio
import re
from collections.abc import Sequence

from understudy.config.model import Config
from understudy.engine.handle import Handle
from understudy.engine.log.facts import NO_TITLE, path_to, title_from
from understudy.protocol.items import Message
from understudy.protocol.records import Entry, Noticed, Opened, UserMessage
from understudy.servers.app_server.projection import Projection
from understudy.servers.app_server.settings import active_profile, approval_policy, sandbox_object
from understudy.servers.app_server.wire import Json
from understudy.servers.codex_version import CODEX_VERSION
from understudy.servers.failures import InvalidParams
from understudy.servers.wire_events.presentation import presentation_of
from understudy.store.log import Listed, Status

LONGEST_PREVIEW = 1000  # characters of the first message
SOURCE = "vscode"  # the protocol's value for every client of the app server

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
    """`message`: its first message, the default for its title."""
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
    """The answer of `thread/start`, `thread/resume` and `thread/fork`: the thread and the settings of its next turn."""
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


_FORKED = re.compile(r"forked from conversation (\S+)")
READ_AT_ONCE = 256  # records in one step of the event loop, so that others are served in between


class Past(Projection):
    """A projection over a log, with the turns that it found."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(thread_id)
        self.last_seq = 0
        self.created_at = 0.0
        self.updated_at = 0.0
        self.preview = ""
        self.forked_from: str | None = None
        self.provider = ""
        self.thread_source: str | None = None
        self._turns: dict[str, Json] = {}
        self._items: dict[str, list[Json]] = {}

    def add(self, entry: Entry) -> None:
        self.last_seq = entry.seq
        self.created_at = self.created_at or entry.at
        self.updated_at = entry.at
        match entry.record:
            case UserMessage(message=message) if not self.preview:
                self.preview = message.text()[:LONGEST_PREVIEW]
            case Opened(provider=provider, thread_source=thread_source):
                self.provider = provider
                self.thread_source = thread_source
            case Noticed(message=message) if entry.turn == "0" and (found := _FORKED.fullmatch(message)):
                self.forked_from = found[1]
            case _:
                pass
        for method, params in self.entry(entry):
            if method in ("turn/started", "turn/completed"):
                self._turns[params["turn"]["id"]] = params["turn"]
            elif method == "item/completed":
                self._items.setdefault(params["turnId"], []).append(params["item"])

    def turns(self) -> list[Json]:
        """The turns in order; a running one has its incomplete items at the end."""
        running, unfinished = self.running_turn, self.unfinished()
        return [
            {
                **turn,
                "items": [*self._items.get(turn_id, ()), *(unfinished if turn_id == running else ())],
                "itemsView": "full",
            }
            for turn_id, turn in self._turns.items()
        ]


class Log:
    """A conversation's log so far: all of it for those who continue from there, and its visible history."""

    def __init__(self, thread_id: str, entries: Sequence[Entry], *, hides_reasoning: bool = False) -> None:
        self.past = _gone_along(thread_id, entries)
        self._hidden = {"reasoning"} if hides_reasoning else set[str]()
        path = path_to(entries)
        self._shown = self.past if len(path) == len(entries) else _gone_along(thread_id, path)

    def turns(self) -> list[Json]:
        """The turns on the conversation's current path: turns that were undone or left behind are not shown."""
        turns = self._shown.turns()
        if not self._hidden:
            return turns
        return [{**turn, "items": [item for item in turn["items"] if item["type"] not in self._hidden]} for turn in turns]

    def items(self, turn_id: str | None = None) -> list[Json]:
        """The items of one turn or of all, each with its turn's id."""
        turns = [turn for turn in self.turns() if turn_id in (None, turn["id"])]
        return [{"turnId": turn["id"], "item": item} for turn in turns for item in turn["items"]]


def _gone_along(thread_id: str, entries: Sequence[Entry]) -> Past:
    past = Past(thread_id)
    for entry in entries:
        past.add(entry)
    return past


async def read_log(handle: Handle) -> Log:
    entries: list[Entry] = []
    while page := await handle.read(entries[-1].seq if entries else 0, READ_AT_ONCE):
        entries += page
        await asyncio.sleep(0)
    return Log(handle.id, entries, hides_reasoning=presentation_of(handle).hides_reasoning)


# -- pages


def page_of(rows: Sequence[Json], cursor: str | None, limit: int, *, newest_first: bool) -> Json:
    """A cursor names the row to begin with, in either direction. Raises `InvalidParams`."""
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 12):
        raise InvalidParams("Invalid params: `cursor` is to be a cursor of an earlier answer")
    last = len(rows) - 1
    first = int(cursor) if cursor is not None else last if newest_first else 0
    step = -1 if newest_first else 1
    shown = (
        range(min(first, last), max(-1, min(first, last) - limit), -1)
        if newest_first
        else range(first, min(first + limit, last + 1))
    )
    following = shown[-1] + step if shown else -1
    return {
        "data": [rows[index] for index in shown],
        "nextCursor": str(following) if 0 <= following <= last else None,
        "backwardsCursor": str(shown[0]) if shown else None,
    }


def last_cursor(rows: Sequence[Json]) -> str | None:
    """The cursor for going back from the newest row."""
    return str(len(rows) - 1) if rows else None
