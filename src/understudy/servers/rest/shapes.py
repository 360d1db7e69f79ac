"""What REST answers with. The OpenAPI document is made from these, so what is described is what is sent."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from understudy.policy.question_text import Kind
from understudy.protocol.callers import Right
from understudy.protocol.choices import ApprovalPolicy, Decision, SandboxMode, SearchRole
from understudy.protocol.records import InputQuestion

State = Literal["idle", "working", "waiting", "failed", "interrupted"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or a part of it."""


class Me(Shape, frozen=True, kw_only=True):
    """Who the request speaks for, and what they may do."""

    name: str
    rights: tuple[Right, ...]  # on their own conversations
    others: tuple[Right, ...]  # on everybody else's
    roots: tuple[str, ...] | None  # folders to work in; null: anywhere
    sandbox_modes: tuple[SandboxMode, ...]
    models: tuple[str, ...]  # some that can be chosen; the first is the default
    approval_policies: tuple[ApprovalPolicy, ...]
    folders: tuple[str, ...]  # recent working folders of conversations
    version: str


class Choice(Shape, frozen=True, kw_only=True):
    """One way to answer a question."""

    decision: Decision
    label: str


class OpenQuestion(Shape, frozen=True, kw_only=True):
    """What waits for a person: exactly what, why, and what a yes lifts."""

    call_id: str
    kind: Kind
    turn: str
    asked_at: str
    mark: float  # send it with the decision, so that it cannot apply to a later question with the same id
    expires_at: str | None  # when it is answered by a no
    text: str
    why: str
    lifts: str
    choices: tuple[Choice, ...]
    command: tuple[str, ...] | None = None
    command_line: str | None = None
    folder: str | None = None  # a command's working folder
    changes: dict[str, Any] | None = None  # of a patch, by path, as in the event `apply_patch_approval_request`
    server: str | None = None  # a tool's server
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    limit: str | None = None  # which limit, for a question about a budget
    used: float | None = None
    allowed: float | None = None
    raised_to: float | None = None
    hook: str | None = None  # the hook that asks or has failed
    shown: str | None = None  # what the hook holds back
    questions: tuple[InputQuestion, ...] | None = None  # what the model wants to know: see `POST …/answers`


class Row(Shape, frozen=True, kw_only=True):
    """A conversation in the list."""

    id: str
    title: str
    folder: str
    model: str
    standing: State = msgspec.field(name="state")
    waiting: tuple[OpenQuestion, ...]
    created: str
    updated: str
    owner: str
    messages: int
    tokens: int | None
    cost_usd: float | None
    archived: bool
    viewers: tuple[str, ...]  # names of viewers through this server; only the first hundred


class Rows(Shape, frozen=True, kw_only=True):
    conversations: tuple[Row, ...]
    next_cursor: str | None


class ShownWorkspace(Shape, frozen=True, kw_only=True):
    """The files of a conversation that was begun with a workspace."""

    kind: Literal["folder", "volume", "git"]
    path: str
    url: str
    commit: str
    setup: tuple[str, ...]
    host: str
    standing: Literal["ready", "lost"] = msgspec.field(name="state")  # lost: it is gone from this host
    saved_turn: str | None  # the turn after which the newest snapshot was taken


class Conversation(Row, frozen=True, kw_only=True):
    """A conversation, and what a person needs to go on with it."""

    questions: tuple[OpenQuestion, ...]
    turn: str | None  # the running turn
    approval_policy: ApprovalPolicy | None
    sandbox: SandboxMode | None
    last_seq: int
    queued: int  # messages that wait for turns of their own
    may: tuple[Right, ...]  # the caller's rights on it
    workspace: ShownWorkspace | None


class Event(Shape, frozen=True, kw_only=True):
    """Something that happened. `msg.type` says what; the other members of `msg` depend on it."""

    id: str
    seq: int
    at: str
    turn: str
    by: str | None = None
    msg: dict[str, Any]


class Events(Shape, frozen=True, kw_only=True):
    """Events of the records `first` to `last`."""

    events: tuple[Event, ...]
    first: int
    last: int
    end: int  # the last existing record
    more: bool  # in the direction of reading


class Accepted(Shape, frozen=True, kw_only=True):
    """A message was taken. What it causes comes as events."""

    message_id: str
    turn: str | None  # the turn that reads it, if known
    joined: bool  # the message joined a running turn
    queued: bool  # the message waits for a turn of its own


class Decided(Shape, frozen=True, kw_only=True):
    call_id: str
    decision: Decision
    status: Literal["ok", "requested"]  # requested: the turn runs in another process, which has not taken the answer yet


class Answered(Shape, frozen=True, kw_only=True):
    call_id: str
    status: Literal["ok", "requested"]  # requested: the turn runs in another process, which has not taken the answer yet


class Stopped(Shape, frozen=True, kw_only=True):
    status: Literal["ok", "requested"]
    interrupted: bool
    message: str | None = None


class SearchHit(Shape, frozen=True, kw_only=True):
    """A place where the words stand: a record of a conversation."""

    conversation_id: str
    seq: int  # of the record; `…/events?after=seq-1` begins there
    time: str
    role: SearchRole
    snippet: str  # one line, without secrets


class SearchHits(Shape, frozen=True, kw_only=True):
    """The newest first. A page may have few hits and a `next` all the same."""

    hits: tuple[SearchHit, ...]
    next: str | None


class Done(Shape, frozen=True, kw_only=True):
    status: Literal["ok", "requested"]
    message: str | None = None


class Renamed(Shape, frozen=True, kw_only=True):
    status: Literal["ok"]
    title: str


class Undone(Shape, frozen=True, kw_only=True):
    status: Literal["ok"]
    turn: str
    message: str
    taken_back: tuple[str, ...]  # files
    left: dict[str, str]  # files that were changed since, and why they were left alone


class Diff(Shape, frozen=True, kw_only=True):
    """What patches have changed in files, as git would write it."""

    turn: str | None
    diff: str


class Report(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn did and used, from the log. What is not known is left out."""

    turn: str
    files: list[dict[str, Any]]  # path, change, added, removed, moved_from
    commands: list[dict[str, Any]]  # command, exit_code, seconds, timed_out, session_id, running
    seconds: float  # working time
    tools: list[dict[str, Any]] | UnsetType = UNSET  # of other MCP servers: server, tool, seconds, failed
    missing_servers: list[dict[str, str]] | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    usage: dict[str, int] | UnsetType = UNSET
    cost_usd: float | UnsetType = UNSET
    files_left_out: int | UnsetType = UNSET
    commands_left_out: int | UnsetType = UNSET
    tools_left_out: int | UnsetType = UNSET
