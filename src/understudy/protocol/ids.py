"""A type for each kind of id, so that one cannot be passed for another."""

from typing import NewType

ConversationId = NewType("ConversationId", str)  # a UUID in canonical form
MessageId = NewType("MessageId", str)  # a UUID: one accepted user message
CallId = NewType("CallId", str)  # the model's id of a tool call
TurnId = NewType("TurnId", str)  # submission id: "1", "2", … per conversation; "0" is its configuration
Seq = NewType("Seq", int)  # position of a record in its conversation's log, from 1
