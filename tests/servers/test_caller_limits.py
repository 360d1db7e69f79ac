"""What a caller may have of a conversation that others have set up: also what messages chose that still wait in a queue."""

import pytest

from understudy.errors import NotAllowed
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides, Record, TurnQueued, UserMessage
from understudy.servers.mcp.caller_limits import CallerLimits


def message(chosen: Overrides) -> UserMessage:
    return UserMessage("m", Message("user", (InputText("Go"),)), chosen)


@pytest.mark.parametrize("queued", [False, True])
def test_what_a_message_chose_is_judged_also_while_it_is_queued(queued: bool) -> None:
    def record(chosen: Overrides) -> Record:
        return TurnQueued(message(chosen)) if queued else message(chosen)

    limits = CallerLimits(("/srv",), frozenset({"read-only"}))
    limits.check_past([record(Overrides(sandbox="read-only"))])
    limits.check_inherited([record(Overrides(config={"model": "x"}))])
    for chosen in (Overrides(sandbox="danger-full-access"), Overrides(cwd="/home")):
        with pytest.raises(NotAllowed):
            limits.check_past([record(chosen)])
    with pytest.raises(NotAllowed):
        limits.check_inherited([record(Overrides(config={"notify": ["x"]}))])
