"""Sends a message: to the running turn, to a turn of its own, or to the process that has the conversation.

A message that wants a turn of its own is queued in the log while another turn runs, so a crash does not lose it. After a crash
nothing continues by itself: queued messages run, in order, before the next message.
"""

import logging
from typing import TYPE_CHECKING

from understudy.engine.conversation.beginning import ENDING
from understudy.engine.conversation.letters import FORK_WHILE_RUNNING
from understudy.engine.conversation.our_claim import Inbox
from understudy.engine.conversation.phases import LEAVING, MAY_BEGIN, OURS, REFUSES, RUNNING
from understudy.engine.log import recovery
from understudy.engine.ops import Way
from understudy.errors import AgentError, BadRequest, ConversationBusy, StoreError, UnknownConversation, report_bug
from understudy.protocol.ops import Accepted, Cancel, Send
from understudy.protocol.records import TurnDropped, TurnQueued, UserMessage

if TYPE_CHECKING:
    from understudy.engine.caller_limits import Judged
    from understudy.engine.conversation.shell import Shell
    from understudy.protocol.callers import Limits

logger = logging.getLogger(__name__)


class Sending(Way[Send]):
    async def judge(self, limits: "Limits", conversation: "Judged", op: Send) -> Send:
        from understudy.engine.caller_limits import judge_message

        return await judge_message(limits, conversation, op)

    async def here(self, shell: "Shell", op: Send) -> Accepted:
        """The message joins the running turn or begins one. If the running turn was told to end, it goes to the next one."""
        phase = shell.phase
        if phase in REFUSES:
            raise UnknownConversation(f"no conversation {shell.id}")
        if op.own_turn:
            return await _send_for_own_turn(shell, op)
        if phase is RUNNING:
            return _join(shell, op.message)
        if phase not in MAY_BEGIN and shell.turn_runs:
            shell.hold(op)
            return Accepted(op.message.message_id, "", held=True)
        try:
            inbox = await shell.take_claim()
        except ConversationBusy:
            return _send_elsewhere(shell, op)
        left = await shell.messages_left() if inbox is Inbox.HAS_LETTERS else ()
        return await shell.begin(op.message, *left, by=op.by)

    def to_turn(self, shell: "Shell", op: Send, turn: str) -> bool:
        if shell.fixes is not None:  # its sender may have been on another machine
            try:
                op = _fixed(shell, op)
            except AgentError as error:
                shell.append(TurnDropped(op.message.message_id, str(error)), turn=turn)
                return True
        if op.own_turn:
            shell.append(TurnQueued(op.message), turn=turn)
            shell.note_sender(op.message.message_id, op.by)
        else:
            shell.append(op.message, turn=turn)
        return True

    async def when_idle(self, shell: "Shell", op: Send) -> None:
        """Raises the reason why no turn can begin with the message."""
        op = _fixed(shell, op)
        if op.own_turn and shell.state.queued:
            _queue(shell, op)
        else:
            await shell.begin(op.message, by=op.by)


WAY = Sending()


def _fixed(shell: "Shell", op: Send) -> Send:
    """The op with the folders that its message changes to pinned as they are now on this machine. Raises `ConfigError`."""
    if op.message.parent_message_id is not None and shell.turn_runs:
        raise BadRequest(FORK_WHILE_RUNNING)
    fixes = shell.fixes
    return op if fixes is None else fixes(op)


def _join(shell: "Shell", record: UserMessage) -> Accepted:
    if record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    shell.check_choices(record)  # its changes apply from the next turn on
    turn = shell.turn_id
    assert turn is not None
    shell.append(record, turn=turn)
    return Accepted(record.message_id, turn, joined=True)


def _send_elsewhere(shell: "Shell", op: Send) -> Accepted:
    record = op.message
    runs = not shell.is_on_another_host or shell.state.turn is not None
    if runs and record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    shell.post(op)
    if op.own_turn or not runs:
        return Accepted(record.message_id, "", queued=True)
    if shell.is_interrupted_elsewhere:
        return Accepted(record.message_id, "", held=True)
    return Accepted(record.message_id, shell.state.turn or "", joined=True)


async def begin_what_waits(shell: "Shell") -> None:
    """Begin a turn with the messages that came while one was ending: first those from other processes, last the queued ones."""
    if shell.phase in MAY_BEGIN and shell.take_letters_left():
        try:
            await shell.take_claim()
            await shell.begin_with_letters()
        except AgentError as error:  # they stay in the inbox: their sender takes the conversation over and is told
            logger.info("letters to %s wait: %s", shell.id, error)
        except Exception as error:
            report_bug(logger, error, "in beginning a turn of %s", shell.id)
    for held in shell.take_held():
        try:
            if shell.phase is LEAVING:
                raise StoreError(ENDING)
            await WAY.here(shell, held.op)
        except AgentError as error:
            held.tell(error)
        except Exception as error:
            held.tell(AgentError(report_bug(logger, error, "in beginning a turn of %s", shell.id)))
        else:
            for told in held.told:
                shell.when_durable(told)
    if shell.state.queued:
        await begin_next(shell)


# -- messages for turns of their own


async def _send_for_own_turn(shell: "Shell", op: Send) -> Accepted:
    """Begin a turn with it now, or queue it behind the turns before it."""
    if shell.turn_runs:
        return _queue(shell, op)
    try:
        inbox = await shell.take_claim()
    except ConversationBusy:
        return _send_elsewhere(shell, op)
    state = shell.state
    if state.queued or (state.turn is not None and recovery.can_go_on(state)):  # left by a process that ended
        await shell.resume_cut_turn()
        accepted = _queue(shell, op)
        await begin_next(shell)
        return accepted
    left = await shell.messages_left() if inbox is Inbox.HAS_LETTERS else ()
    return await shell.begin(op.message, *left, by=op.by)


def _queue(shell: "Shell", op: Send) -> Accepted:
    """Call it under the claim."""
    record = op.message
    shell.check_log()
    shell.check_room(op.by)
    if record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    shell.check_choices(record)
    shell.append(TurnQueued(record), turn=_number(shell))
    shell.note_sender(record.message_id, op.by)
    return Accepted(record.message_id, "", queued=True)


async def begin_next(shell: "Shell") -> None:
    """Begin a turn with the first queued message that can begin one, unless another turn runs."""
    while shell.phase in MAY_BEGIN and shell.state.queued:
        try:
            if await shell.take_claim() is Inbox.HAS_LETTERS:
                await shell.begin_with_letters()  # the end of that turn leads back here
            first = next(iter(shell.state.queued.values()), None)
            if shell.turn_runs or first is None:
                return
        except AgentError as error:
            logger.info("queued turns of %s wait: %s", shell.id, error)
            return
        try:
            await shell.begin(first, by=shell.take_sender(first.message_id), promised=True)
        except AgentError as error:
            reason = str(error)
        except Exception as error:
            reason = report_bug(logger, error, "in beginning a turn of %s", shell.id)
        else:
            return
        if shell.phase is not OURS:
            return  # it stays in the log
        shell.append(TurnDropped(first.message_id, reason), turn=_number(shell))


async def drop(shell: "Shell", op: Cancel) -> bool:
    """Take a queued message back. False if it is no longer queued."""
    if not shell.has_claim:
        try:
            await shell.take_claim()
        except ConversationBusy:
            shell.post(op)
            return True
    return drop_here(shell, op.message_id)


def drop_here(shell: "Shell", message_id: str) -> bool:
    if message_id not in shell.state.queued:
        return False
    shell.take_sender(message_id)
    shell.append(TurnDropped(message_id), turn=_number(shell))
    return True


def _number(shell: "Shell") -> str:
    return shell.state.turn or "0"
