"""Who of those that follow a conversation is asked, where whoever began the turn has left or cannot be."""

from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import FORGOTTEN, LEAVING

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell
    from understudy.engine.conversation.waiters import Waiter


def is_left_alone(viewer: "Waiter", shell: "Shell") -> bool:
    """Whether a viewer that joined a turn which runs here is the only one that could see to its questions. Such a turn was begun by
    the conversation door, where a question waits until somebody can answer, or its viewer has left.
    """
    if not shell.turn_runs or any(other.leads for other in shell.waiters if other is not viewer):
        return False
    return not any(other.can_answer for other in shell.followers if other is not viewer)


def put_to_those_left(shell: "Shell") -> None:
    """One who could answer has left: those who wait see to the open questions, unless somebody else can answer them."""
    if shell.phase in (LEAVING, FORGOTTEN) or not shell.turn_runs:
        return
    followers = tuple(shell.followers)
    if any(follower.can_answer for follower in followers):
        return
    for viewer in shell.waiters:
        if viewer in followers:
            viewer.put_open_questions()
