"""Who of those that follow a conversation is asked, where whoever began the turn has left or cannot be."""

from typing import TYPE_CHECKING

from understudy.engine.phases import FORGOTTEN, LEAVING

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation
    from understudy.engine.following import Following


def is_left_alone(following: "Following", conversation: "Conversation") -> bool:
    """Whether a viewer that joined a turn which runs here is the only one that could see to its questions. Such a turn was begun by
    the conversation door, where a question waits until somebody can answer, or its viewer has left.
    """
    if not conversation.running or any(other.leads for other in conversation.waiting if other is not following):
        return False
    return not any(other.can_answer for other in conversation.tail.broadcast.followers if other is not following)


def put_to_those_left(conversation: "Conversation") -> None:
    """One who could answer has left: those who wait see to the open questions, unless somebody else can answer them."""
    conversation.asks_those_left = False
    if conversation.standing.phase in (LEAVING, FORGOTTEN) or not conversation.running:
        return
    followers = tuple(conversation.tail.broadcast.followers)
    if any(follower.can_answer for follower in followers):
        return
    for follower in tuple(conversation.waiting):
        if follower in followers:
            follower.put_open_questions()
