"""The theory of a conversation: its phase in this process, and the effect of every input in each phase. Pure: no I/O, no clock.

A conversation is a log and one phase. The log holds what was said and done, by any process; the phase says what this process is
doing with it. Everything else that a conversation keeps is a collection (held messages, letters, viewers), not a mode.

    UNREAD     nothing of its log is known here
    IDLE       it is known, nothing runs here, and the claim is not ours: the next to act must take it
    OURS       we may append, and no turn runs: an op is at work, records are on their way to the disk, or commands that outlive
               their turns keep the claim
    RUNNING    a turn runs here, so the claim is ours
    ENDING     that turn was told to end: new input is for the turn after it
    BREAKING   the log cannot be written, or the claim was lost, and the turn is still being stopped
    FAILED     the same, and no turn runs: the next claim reads the log anew
    DELETING   it is to be deleted; its turn may still be ending. Ops are refused
    GONE       it was deleted, here or by another process
    LEAVING    the process ends; a turn may still be ending. Nothing begins
    FORGOTTEN  it has left memory, and is loaded again when asked for

An input is something that has happened (`Given`). `STEPS[phase][given]` holds the next phase and the effects; None means that the
input cannot happen in that phase. Requests have a table of their own: `OPS` in `ops/table.py` names the right that each op needs,
and the file that decides, by the phase alone, what the op does. A `Conversation` performs effects, and its base class `Shell` does
what ops say.
"""

import logging
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)


class Phase(IntEnum):
    """An integer, because it is used as an index: a lookup costs no call."""

    UNREAD = 0
    IDLE = 1
    OURS = 2
    RUNNING = 3
    ENDING = 4
    BREAKING = 5
    FAILED = 6
    DELETING = 7
    GONE = 8
    LEAVING = 9
    FORGOTTEN = 10


UNREAD, IDLE, OURS, RUNNING, ENDING, BREAKING, FAILED, DELETING, GONE, LEAVING, FORGOTTEN = Phase


class Given(IntEnum):
    """What has happened to the log, the claim, a turn, or the process."""

    OPENED = 0  # it is new, and ours
    LOADED = 1  # its log was read
    CLAIMED = 2  # the claim is ours, and everything that others wrote is known
    RELEASED = 3  # the claim was given back
    LOST = 4  # the claim could not be kept
    BROKEN = 5  # the log cannot be written
    READ_ANEW = 6  # after the failure, without the claim
    STARTED = 7  # a turn
    TOLD_TO_END = 8  # the turn was interrupted, or a person answered a question by ending it
    ENDED = 9  # the turn is over, and nothing of it runs any more
    CLOSED = 10  # the record of its end has been appended
    DELETION = 11  # the conversation is to be deleted
    KEPT = 12  # the deletion failed
    KEPT_OURS = 13  # the deletion failed, and the claim is ours
    KEPT_ENDING = 14  # the deletion failed, and a turn is still ending
    KEPT_BREAKING = 15  # the deletion failed, and the log cannot be written while a turn still ends
    KEPT_FAILED = 16  # the deletion failed, the log cannot be written, and no turn runs
    KEPT_UNREAD = 17  # the deletion failed, and nothing of its log was read
    DELETED = 18  # the store no longer has it
    LEAVE = 19  # the process ends
    FORGET = 20  # memory is needed for others


class Effect(IntEnum):
    """A consequence that follows at once from an input."""

    WATCH = 0  # watch for letters to the turn
    GO_ON = 1  # begin what waits for the end of the turn, or give the claim back
    BREAK = 2  # nothing more can be recorded under this claim: fail the log
    FAIL_HELD = 3  # tell the senders of held messages that these are lost
    STOP = 4  # stop the turn and the commands: nothing may be done unrecorded
    RELEASE_SOON = 5  # once everybody has been told


class Step(NamedTuple):
    phase: Phase
    effects: tuple[Effect, ...] = ()


_WATCH = (Effect.WATCH,)
_GO_ON = (Effect.GO_ON,)
_BREAK = (Effect.BREAK,)
_STOP = (Effect.FAIL_HELD, Effect.STOP, Effect.RELEASE_SOON)

_STEPS: Final[dict[Phase, dict[Given, Step]]] = {
    UNREAD: {
        Given.OPENED: Step(OURS),
        Given.LOADED: Step(IDLE),
        Given.RELEASED: Step(UNREAD),  # a new conversation that could not be opened
        Given.LOST: Step(UNREAD, _BREAK),
        Given.BROKEN: Step(UNREAD, _STOP),
        Given.DELETION: Step(DELETING),  # deleted for its age, without being read
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
    },
    IDLE: {
        Given.CLAIMED: Step(OURS),
        Given.RELEASED: Step(IDLE),  # what others wrote could not be read
        Given.LOST: Step(IDLE, _BREAK),  # lost during that read
        Given.BROKEN: Step(FAILED, _STOP),
        Given.CLOSED: Step(IDLE, _GO_ON),
        Given.DELETION: Step(DELETING),
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
        Given.FORGET: Step(FORGOTTEN),
    },
    OURS: {
        Given.RELEASED: Step(IDLE),
        Given.LOST: Step(IDLE, _BREAK),
        Given.BROKEN: Step(FAILED, _STOP),
        Given.STARTED: Step(RUNNING, _WATCH),
        Given.CLOSED: Step(OURS, _GO_ON),
        Given.DELETION: Step(DELETING),
        Given.LEAVE: Step(LEAVING),
    },
    RUNNING: {
        Given.LOST: Step(RUNNING, _BREAK),
        Given.BROKEN: Step(BREAKING, _STOP),
        Given.TOLD_TO_END: Step(ENDING),
        Given.ENDED: Step(OURS),
        Given.CLOSED: Step(RUNNING, _GO_ON),
        Given.LEAVE: Step(LEAVING),
    },
    ENDING: {
        Given.LOST: Step(ENDING, _BREAK),
        Given.BROKEN: Step(BREAKING, _STOP),
        Given.TOLD_TO_END: Step(ENDING),
        Given.ENDED: Step(OURS),
        Given.CLOSED: Step(ENDING, _GO_ON),
        Given.DELETION: Step(DELETING),
        Given.LEAVE: Step(LEAVING),
    },
    BREAKING: {
        Given.RELEASED: Step(BREAKING),
        Given.LOST: Step(BREAKING),
        Given.TOLD_TO_END: Step(BREAKING),
        Given.ENDED: Step(FAILED),
        Given.DELETION: Step(DELETING),
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
    },
    FAILED: {
        Given.CLAIMED: Step(OURS),
        Given.RELEASED: Step(FAILED),
        Given.LOST: Step(FAILED),
        Given.READ_ANEW: Step(IDLE),
        Given.CLOSED: Step(FAILED, _GO_ON),
        Given.DELETION: Step(DELETING),
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
        Given.FORGET: Step(FORGOTTEN),
    },
    DELETING: {
        Given.CLAIMED: Step(DELETING),
        Given.RELEASED: Step(DELETING),
        Given.LOST: Step(DELETING, _BREAK),
        Given.BROKEN: Step(DELETING, _STOP),
        Given.READ_ANEW: Step(DELETING),
        Given.TOLD_TO_END: Step(DELETING),
        Given.ENDED: Step(DELETING),
        Given.CLOSED: Step(DELETING, _GO_ON),
        Given.KEPT: Step(IDLE),
        Given.KEPT_OURS: Step(OURS),
        Given.KEPT_ENDING: Step(ENDING),
        Given.KEPT_BREAKING: Step(BREAKING),
        Given.KEPT_FAILED: Step(FAILED),
        Given.KEPT_UNREAD: Step(UNREAD),
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
    },
    GONE: {
        Given.RELEASED: Step(GONE),
        Given.LOST: Step(GONE),
        Given.BROKEN: Step(GONE, _STOP),
        Given.TOLD_TO_END: Step(GONE),
        Given.ENDED: Step(GONE),
        Given.CLOSED: Step(GONE, _GO_ON),
        Given.KEPT: Step(GONE),
        Given.KEPT_OURS: Step(GONE),
        Given.KEPT_ENDING: Step(GONE),
        Given.KEPT_BREAKING: Step(GONE),
        Given.KEPT_FAILED: Step(GONE),
        Given.KEPT_UNREAD: Step(GONE),
        Given.DELETED: Step(GONE),
        Given.LEAVE: Step(LEAVING),
        Given.FORGET: Step(FORGOTTEN),
    },
    LEAVING: {
        Given.OPENED: Step(LEAVING),
        Given.LOADED: Step(LEAVING),
        Given.CLAIMED: Step(LEAVING),
        Given.RELEASED: Step(LEAVING),
        Given.LOST: Step(LEAVING, _BREAK),
        Given.BROKEN: Step(LEAVING, _STOP),
        Given.READ_ANEW: Step(LEAVING),
        Given.TOLD_TO_END: Step(LEAVING),
        Given.ENDED: Step(LEAVING),
        Given.CLOSED: Step(LEAVING, _GO_ON),
        Given.KEPT: Step(LEAVING),
        Given.KEPT_OURS: Step(LEAVING),
        Given.KEPT_ENDING: Step(LEAVING),
        Given.KEPT_BREAKING: Step(LEAVING),
        Given.KEPT_FAILED: Step(LEAVING),
        Given.KEPT_UNREAD: Step(LEAVING),
        Given.DELETED: Step(LEAVING),
        Given.LEAVE: Step(LEAVING),
        Given.FORGET: Step(FORGOTTEN),
    },
    FORGOTTEN: {
        Given.LEAVE: Step(FORGOTTEN),
    },
}

STEPS: Final = tuple(tuple(_STEPS[phase].get(given) for given in Given) for phase in Phase)


def kept(*, known: bool, claimed: bool, turn: bool, broken: bool) -> Given:
    """The input for a deletion that failed, by the conversation's condition."""
    if not known:
        return Given.KEPT_UNREAD
    if broken:
        return Given.KEPT_BREAKING if turn else Given.KEPT_FAILED
    if turn:
        return Given.KEPT_ENDING
    return Given.KEPT_OURS if claimed else Given.KEPT


REFUSES: Final = frozenset({DELETING, GONE})
MAY_BE_FORGOTTEN: Final = frozenset({IDLE, FAILED, GONE, LEAVING})
MAY_BEGIN: Final = frozenset({IDLE, OURS, FAILED})


class Standing:
    """The phase of one conversation. Its parts share it and note what has happened; the conversation performs the effects."""

    __slots__ = ("effects", "phase")

    def __init__(self) -> None:
        self.phase = UNREAD
        self.effects: Sequence[Callable[[], None]] = ()  # how each `Effect` is performed

    def note(self, given: Given) -> None:
        step = STEPS[self.phase][given]
        if step is None:  # a bug: nothing follows from it
            logger.error("bug: %s cannot happen to a conversation that is %s", given.name, self.phase.name)
            return
        self.phase, effects = step
        for effect in effects:
            self.effects[effect]()
