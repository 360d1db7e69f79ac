"""Handlers that act: begin a conversation, send to it, answer its questions, stop it."""

from typing import Annotated, Any, Literal

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.engine.turn.approvals import CLIENT
from understudy.errors import InvalidArguments, TooManyTurns
from understudy.policy.user_input import read_answers
from understudy.protocol.callers import Caller
from understudy.protocol.choices import ApprovalPolicy, Decision, Mode, SandboxMode
from understudy.protocol.items import ContentPart, InputText, Message
from understudy.protocol.ops import Answer, Decide, Delete
from understudy.protocol.records import ApprovalDecided, Entry, Overrides, Question, Terms, UserInputAsked
from understudy.servers.arguments import check_budget, check_schema, read_terms, table
from understudy.servers.given_images import places_for, places_for_new, read_images
from understudy.servers.given_workspace import GivenWorkspace
from understudy.servers.rest.failures import Conflict, NotThere
from understudy.servers.rest.rows import conversation_of
from understudy.servers.rest.shapes import Accepted, Answered, Decided, Stopped
from understudy.servers.rest.visits import RestAnswer, Visit
from understudy.servers.times import rfc3339

READ_BACK = 512  # records per read, in search of who has answered a question
MOST_READ_BACK = 50_000
MOST_IMAGES = 16
MOST_OF_NAME = 128  # characters of a program's own name that records keep

_Images = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_IMAGES, description="`data:` URLs, or paths on the server")]


class Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds from here on."""

    model: str | None = None
    profile: str | None = None
    folder: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxMode | None = None
    config: dict[str, Any] | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    images: _Images = ()
    output_schema: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None

    def overrides(self) -> Overrides | None:
        """Raises `InvalidArguments`."""
        if self.config is not None and (problem := table(self.config)) is not None:
            raise InvalidArguments(f"{problem}\nin `config`")
        chosen = Overrides(
            model=self.model,
            profile=self.profile,
            cwd=self.folder,
            approval_policy=self.approval_policy,
            sandbox=self.sandbox,
            config=self.config,
            base_instructions=self.base_instructions,
            developer_instructions=self.developer_instructions,
        )
        return None if chosen == Overrides() else chosen


class NewConversation(Chosen, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation, and what it is to begin with. In mode `plan` nothing is changed until its user has accepted a plan."""

    prompt: str = ""
    mode: Mode = "default"
    workspace: GivenWorkspace | None = None

    def overrides(self) -> Overrides | None:
        chosen = _in_mode(super().overrides(), self.mode if self.mode == "plan" else None)
        if self.workspace is None:
            return chosen
        return msgspec.structs.replace(chosen or Overrides(), workspace=self.workspace.workspace())


class NewMessage(Chosen, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Modes: `send` is to the turn that runs, or for a new one; `steer` only to the turn that runs; `queue` for a turn of its own,
    after the one that runs; `plan` and `default` are `send`, and in that mode from here on.
    """

    text: str = ""
    mode: Literal["send", "steer", "queue", "plan", "default"] = "send"
    parent_message_id: str | None = None

    def overrides(self) -> Overrides | None:
        return _in_mode(super().overrides(), self.mode if self.mode in ("plan", "default") else None)


def _in_mode(chosen: Overrides | None, mode: Mode | None) -> Overrides | None:
    return chosen if mode is None else msgspec.structs.replace(chosen or Overrides(), mode=mode)


class NewDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    call_id: str
    decision: Decision
    message: Annotated[str, msgspec.Meta(max_length=10_000, description="a word to the model, with a no")] = ""
    mark: Annotated[float, msgspec.Meta(description="of the question that was seen; see `OpenQuestion`")] | None = None


class NewAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By the id of each question: a label of its options, or other words; several where several are meant."""

    call_id: str
    answers: dict[str, str | tuple[str, ...]]
    mark: Annotated[float, msgspec.Meta(description="of the question that was seen; see `OpenQuestion`")] | None = None


async def create(visit: Visit, new: NewConversation) -> RestAnswer:
    terms = await terms_of(new)
    if (terms is not None or new.images) and not new.prompt:
        raise InvalidArguments("`images`, `output_schema` and `budget` belong to a message: give them with a `prompt`")
    chosen = msgspec.structs.replace(new.overrides() or Overrides(), include_plan_tool=True)  # the page shows plans
    content = await content_of(visit.engine, visit.caller, new.prompt, new.images, chosen)
    handle = await visit.engine.create(visit.caller, chosen, for_turn=bool(content), terms=terms)
    if content:
        try:
            await handle.submit(handle.message(Message("user", content), terms=terms))
        except TooManyTurns:  # other calls have begun turns meanwhile
            handle.submit_soon(Delete())
            raise
    await handle.durable()
    location = f"/v1/conversations/{handle.id}"
    return RestAnswer(await conversation_of(visit.engine, handle), 201, ((b"location", location.encode()),))


async def send_message(visit: Visit, new: NewMessage) -> RestAnswer:
    terms = await terms_of(new)
    if not new.text and not new.images:
        raise InvalidArguments("a message needs a `text`, or `images`")
    handle = await visit.find()
    chosen = new.overrides()
    handle.check_right("run")
    content = await content_of(visit.engine, visit.caller, new.text, new.images, handle)
    if new.mode == "steer" and handle.running_turn is None:
        await handle.committed()
        raise Conflict("no turn is running that could be steered; `mode`: `send` begins one", "no_turn")
    durable = Durable()
    op = handle.message(Message("user", content), chosen, new.parent_message_id, terms, own_turn=new.mode == "queue")
    sent = await handle.submit(op, durable=durable)
    await durable
    taken = Accepted(message_id=sent.message_id, turn=sent.turn or None, joined=sent.joined, queued=sent.queued or sent.held)
    return RestAnswer(taken, 202)


async def decide(visit: Visit, new: NewDecision) -> Decided:
    handle = await visit.find()
    handle.check_right("approve")
    durable = Durable()
    outcome = "closed"
    if (question := handle.open_question(new.call_id)) is not None:
        word = new.message if new.decision in ("denied", "abort") else ""
        client = (visit.asked.header(b"user-agent") or "")[:MOST_OF_NAME]
        op = Decide(new.call_id, new.decision, CLIENT, word=word, asked_at=new.mark or 0.0, client=client)
        outcome = await handle.decide(checked_decision(question, op), durable)
    if outcome == "closed":
        raise await _closed(handle, new.call_id, new.mark)
    await durable
    return Decided(call_id=new.call_id, decision=new.decision, status="ok" if outcome == "counts" else "requested")


def checked_decision(question: Question, op: Decide) -> Decide:
    """Raises `InvalidArguments` if it cannot answer that question."""
    if isinstance(question, UserInputAsked) and op.decision not in ("denied", "abort"):
        raise InvalidArguments(f"`{op.call_id}` asks for words: answer it by `answers`, or with `denied`")
    return op


async def answer(visit: Visit, new: NewAnswer) -> Answered:
    handle = await visit.find()
    handle.check_right("approve")
    durable = Durable()
    outcome = "closed"
    question = handle.open_question(new.call_id)
    if question is not None:
        op = answer_to(question, new, (visit.asked.header(b"user-agent") or "")[:MOST_OF_NAME])
        outcome = await handle.decide(op, durable)
    if outcome == "closed":
        raise await _closed(handle, new.call_id, new.mark)
    await durable
    return Answered(call_id=new.call_id, status="ok" if outcome == "counts" else "requested")


def answer_to(question: Question, new: NewAnswer, client: str) -> Answer:
    """Raises `InvalidArguments`."""
    if not isinstance(question, UserInputAsked):
        raise InvalidArguments(f"`{new.call_id}` asks for a decision: POST …/decisions")
    try:
        answers = read_answers(question, new.answers)
    except ValueError as error:
        raise InvalidArguments(f"{error}\nin `answers`") from None
    if not answers:
        raise InvalidArguments("`answers` is empty. To answer nothing, POST …/decisions with `denied`")
    return Answer(new.call_id, "approved", CLIENT, asked_at=new.mark or 0.0, client=client, answers=answers)


async def _closed(handle: Handle, call_id: str, mark: float | None) -> Exception:
    """Why an answer does not count: who was first, if somebody was."""
    await handle.committed()  # the answer that counts may have just come, and is not shown before it is on disk
    first = await _first_answer(handle, call_id, mark)
    if first is None:
        return NotThere(f"no question `{call_id}` is open here; open ones: {', '.join(handle.facts.questions) or 'none'}")
    entry, decided = first
    who = decided.by if decided.source == CLIENT else f"a rule ({decided.source})"
    message = f"the question was answered already: {decided.decision}, by {who}"
    details = {"by": decided.by, "decision": decided.decision, "decided_at": rfc3339(entry.at)}
    return Conflict(message, "already_decided", **details)


async def _first_answer(handle: Handle, call_id: str, mark: float | None) -> tuple[Entry, ApprovalDecided] | None:
    """The answer that counts for the question with this mark, or for the last one: models reuse call ids."""
    found: tuple[Entry, ApprovalDecided] | None = None
    before = handle.published
    looked_at = 0
    while before > 0 and looked_at < MOST_READ_BACK:
        after = max(0, before - READ_BACK)
        for entry in reversed(await handle.read(after, before - after)):
            record = entry.record
            if isinstance(record, ApprovalDecided) and record.call_id == call_id and record.effective:
                found = entry, record
            elif isinstance(record, Question) and record.call_id == call_id:
                if mark is None or entry.at == mark:
                    return found
                found = None
        looked_at += before - after
        before = after
    return found


async def interrupt(visit: Visit) -> Stopped:
    """Answer when the turn is over."""
    handle = await visit.find()
    stopped = await handle.interrupt()
    if stopped.status != "requested":
        return Stopped(status="ok", interrupted=stopped.status == "over")
    holder = "another process" if stopped.holder is None else f"process {stopped.holder}"
    message = f"the turn runs in {holder}, which was told to end it and has not done so yet"
    return Stopped(status="requested", interrupted=False, message=message)


async def content_of(
    engine: Engine, caller: Caller, text: str, images: tuple[str, ...], of: Handle | Overrides
) -> tuple[ContentPart, ...]:
    parts: tuple[ContentPart, ...] = (InputText(text),) if text else ()
    if not images:
        return parts
    if isinstance(of, Handle):
        return (*parts, *await read_images(caller, images, of.facts.cwd, lambda: places_for(of)))
    return (*parts, *await read_images(caller, images, of.cwd or "", lambda: places_for_new(engine, of)))


async def terms_of(new: Chosen) -> Terms | None:
    if new.output_schema is None and new.budget is None:
        return None
    for name, value, check in (("output_schema", new.output_schema, check_schema), ("budget", new.budget, check_budget)):
        if value is not None and (problem := check(value)) is not None:
            raise InvalidArguments(f"{problem}\nin `{name}`")
    return await read_terms({"output_schema": new.output_schema, "budget": new.budget})
