"""A type for each kind of id, so that one cannot be passed for another."""

from typing import NewType

ConversationId = NewType("ConversationId", str)  # a UUID in canonical form
