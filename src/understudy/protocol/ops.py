"""What a conversation can be asked to do. Each op names the caller who asks (`by`).

A process leaves an op for a conversation of another process in encoded form. Fields that were added later have defaults, so that
ops left by an earlier build can still be read.
"""

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import Decision
from understudy.protocol.records import Answers, UserMessage


class Send(msgspec.Struct, frozen=True, tag="send", omit_defaults=True):
    """Take a message: it joins the running turn, or begins one."""

    message: UserMessage
    by: str = LOCAL_NAME
    own_turn: bool = False  # the message joins no turn: if one runs, the message waits for its end and begins its own


class Interrupt(msgspec.Struct, frozen=True, tag="interrupt", omit_defaults=True):
    """End the running turn. If `turn` names one, end only that one: an op may arrive after its turn has ended."""

    turn: str = ""
    by: str = LOCAL_NAME


class Cancel(msgspec.Struct, frozen=True, tag="cancel", omit_defaults=True):
    """End the turn that this message began, and no other. If its turn has not begun, take the message back."""

    message_id: str
    turn: str = ""  # if it is known
    by: str = LOCAL_NAME


class Decide(msgspec.Struct, frozen=True, tag="decide", omit_defaults=True):
    """Answer a question. `turn`, if given, says of which turn: models reuse call ids."""

    call_id: str
    decision: Decision
    source: str  # "client", or the rule that answered because nobody could
    turn: str = ""
    by: str = LOCAL_NAME
    word: str = ""  # told to the model with a refusal
    answer_id: str = ""  # lets the answerer find this answer in the log
    door: str = ""  # where the answer came in
    asked_at: float = 0.0  # when the question was asked, if known: a later question may have the same id
    address: str = ""  # of the machine that the answer came from, over a network
    client: str = ""  # the name that the answering program gives itself

    def of_turn(self, turn: str) -> "Decide":
        return msgspec.structs.replace(self, turn=turn)


class Answer(Decide, frozen=True, tag="answer", omit_defaults=True):
    """Answer what the model wants to know (`UserInputAsked`): a yes with words. Empty `answers` say that nobody answered."""

    answers: Answers = {}


class Compact(msgspec.Struct, frozen=True, tag="compact", omit_defaults=True):
    """Have the model summarise the earlier history: between two requests of the running turn, or in a turn of its own."""

    by: str = LOCAL_NAME


class Resume(msgspec.Struct, frozen=True, tag="resume", omit_defaults=True):
    """Continue a turn whose process ended while it waited for an answer; close any other turn that was cut off."""

    by: str = LOCAL_NAME


class Archive(msgspec.Struct, frozen=True, tag="archive", omit_defaults=True):
    """Archive the conversation, or bring it back."""

    archived: bool = True
    by: str = LOCAL_NAME


class Delete(msgspec.Struct, frozen=True, tag="delete", omit_defaults=True):
    """Delete the conversation for good."""

    by: str = LOCAL_NAME
    there: bool = False  # whichever process reads this as a letter does it, on the host of the workspace


class Undo(msgspec.Struct, frozen=True, tag="undo", omit_defaults=True):
    """Restore the files that a turn patched, if they have not changed since."""

    undo_id: str  # lets the asker find the outcome in the log
    turn: str = ""  # empty: the last turn that changed files and is not undone
    approves: bool = False  # the asker may also approve what would need a person's approval
    by: str = LOCAL_NAME


class Rename(msgspec.Struct, frozen=True, tag="rename", omit_defaults=True):
    """Give the conversation a title."""

    title: str
    by: str = LOCAL_NAME


Op = Send | Interrupt | Cancel | Decide | Answer | Compact | Resume | Archive | Delete | Undo | Rename


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """An op was accepted. The log holds what it causes."""

    message_id: str = ""  # of a message
    turn: str | None = None  # the turn that reads the message or was told to end; empty if another process has it and did not say
    joined: bool = False  # the message joined a running turn
    queued: bool = False  # the message waits for a turn of its own; `turn` is not known yet
    held: bool = False  # the message waits for the end of the running turn, which was told to end; `turn` is not known yet
    effective: bool = True  # False: there was nothing left to do
    posted: bool = False  # left for the process that runs the turn, or until the turn asks again: the log will tell the outcome
