"""Chooses which follower is asked a question if whoever began the turn has left or cannot be asked."""

from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import FORGOTTEN, LEAVING

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell
    from understudy.engine.conversation.waiters import Waiter


def is_left_alone(viewer: "Waiter", shell: "Shell") -> bool:
    """Whether a viewer that joined a turn here is the only one that could handle its questions. The turn was then begun through the
    conversation door, where a question waits until somebody can answer, or its first viewer has left.
    """
    if not shell.turn_runs or any(other.leads for other in shell.waiters if other is not viewer):
        return False
    return not any(other.can_answer for other in shell.followers if other is not viewer)


def put_to_those_left(shell: "Shell") -> None:
    """A viewer that could answer has left: the waiting viewers handle the open questions, unless another follower can answer."""
    if shell.phase in (LEAVING, FORGOTTEN) or not shell.turn_runs:
        return
    followers = tuple(shell.followers)
    if any(follower.can_answer for follower in followers):
        return
    for viewer in shell.waiters:
        if viewer in followers:
            viewer.put_open_questions()
