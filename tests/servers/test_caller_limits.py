"""What a caller may have of a conversation that others have set up: also what messages chose that still wait in a queue."""

import pytest

from understudy.engine.caller_limits import check_inherited, check_past
from understudy.errors import NotAllowed
from understudy.protocol.callers import Limits
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides, Record, TurnQueued, UserMessage


def message(chosen: Overrides) -> UserMessage:
    return UserMessage("m", Message("user", (InputText("Go"),)), chosen)


@pytest.mark.parametrize("queued", [False, True])
def test_what_a_message_chose_is_judged_also_while_it_is_queued(queued: bool) -> None:
    def record(chosen: Overrides) -> Record:
        return TurnQueued(message(chosen)) if queued else message(chosen)

    limits = Limits(("/srv",), frozenset({"read-only"}))
    check_past(limits, [record(Overrides(sandbox="read-only"))])
    check_inherited(limits, [record(Overrides(config={"model": "x"}))])
    for chosen in (Overrides(sandbox="danger-full-access"), Overrides(cwd="/home")):
        with pytest.raises(NotAllowed):
            check_past(limits, [record(chosen)])
    with pytest.raises(NotAllowed):
        check_inherited(limits, [record(Overrides(config={"notify": ["x"]}))])
