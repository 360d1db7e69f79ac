"""What a conversation can be asked to do. Each op says in whose name it is (`by`, a caller's name).

What one process leaves for a conversation that another process owns is the same op, encoded. Fields that were added later have
defaults, so that what an earlier build has left there can still be read.
"""

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import Decision
from understudy.protocol.records import Answers, UserMessage


class Send(msgspec.Struct, frozen=True, tag="send", omit_defaults=True):
    """Take a message: it joins the running turn, or begins one."""

    message: UserMessage
    by: str = LOCAL_NAME
    own_turn: bool = False  # it joins none: while a turn runs, its own waits for the end of that


class Interrupt(msgspec.Struct, frozen=True, tag="interrupt", omit_defaults=True):
    """End the running turn; where `turn` names one, that one and no other: an op may arrive after its end."""

    turn: str = ""
    by: str = LOCAL_NAME


class Cancel(msgspec.Struct, frozen=True, tag="cancel", omit_defaults=True):
    """End the turn that this message began, and no other; a message whose turn has not begun is taken back."""

    message_id: str
    turn: str = ""  # where it is known
    by: str = LOCAL_NAME


class Decide(msgspec.Struct, frozen=True, tag="decide", omit_defaults=True):
    """Answer a question; of this turn, where one is named: models give their calls the same ids again."""

    call_id: str
    decision: Decision
    source: str  # "client", or the rule that answers for nobody
    turn: str = ""
    by: str = LOCAL_NAME
    word: str = ""  # for the model, with a refusal
    answer_id: str = ""  # by which whoever answered finds this answer in the log
    door: str = ""  # by which the answer came
    asked_at: float = 0.0  # of the question that was seen, where that is known: a later one may have the same id
    address: str = ""  # of the machine from which the answer came, where it came over a network
    client: str = ""  # the program by which it came, as that calls itself

    def of_turn(self, turn: str) -> "Decide":
        return msgspec.structs.replace(self, turn=turn)


class Answer(Decide, frozen=True, tag="answer", omit_defaults=True):
    """Answer what the model wants to know (`UserInputAsked`): a yes with words. An empty one says that nobody answered."""

    answers: Answers = {}


class Compact(msgspec.Struct, frozen=True, tag="compact", omit_defaults=True):
    """Have the model sum up what was before: between two requests of the running turn, or in a turn of its own."""

    by: str = LOCAL_NAME


class Resume(msgspec.Struct, frozen=True, tag="resume", omit_defaults=True):
    """Take up a turn that waited for an answer when its process ended; close any other that was cut off."""

    by: str = LOCAL_NAME


class Archive(msgspec.Struct, frozen=True, tag="archive", omit_defaults=True):
    """Put the conversation among the archived ones, or back."""

    archived: bool = True
    by: str = LOCAL_NAME


class Delete(msgspec.Struct, frozen=True, tag="delete", omit_defaults=True):
    """Forget the conversation for good."""

    by: str = LOCAL_NAME
    there: bool = False  # by whoever reads it as a letter, on the host of its workspace


class Undo(msgspec.Struct, frozen=True, tag="undo", omit_defaults=True):
    """Put the files that a turn patched back to what they were, where they still are as it left them."""

    undo_id: str  # by which whoever asked finds the outcome in the log
    turn: str = ""  # empty: the last one that changed files and is not undone
    approves: bool = False  # whoever says it may also approve what a person has to be asked about
    by: str = LOCAL_NAME


class Rename(msgspec.Struct, frozen=True, tag="rename", omit_defaults=True):
    """Give the conversation a title."""

    title: str
    by: str = LOCAL_NAME


Op = Send | Interrupt | Cancel | Decide | Answer | Compact | Resume | Archive | Delete | Undo | Rename


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """An op was taken. What it causes is in the log."""

    message_id: str = ""  # of a message
    turn: str | None = None  # that reads the message, or that was told to end; empty where another process has it and did not say
    joined: bool = False  # the message is for a turn that was running
    queued: bool = False  # the message waits for a turn of its own; `turn` is not known yet
    held: bool = False  # until the running turn, which was told to end, is over; `turn` is not known yet
    effective: bool = True  # False: there was nothing to be done any more
    posted: bool = False  # left for the process that runs the turn, or until the turn asks again: the log will tell what came of it
