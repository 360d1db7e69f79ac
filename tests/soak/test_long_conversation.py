"""A conversation that compacts itself again and again: it knows its goal at the end, and costs no more than at the beginning.

A tenth of what `python -m tests.soak.long_conversation` runs.
"""

from pathlib import Path
from statistics import median

import pytest

from tests.soak.long_conversation import GOAL, MB, WINDOW, live
from tests.soak.remembering_model import RememberingModel
from understudy.testing.script import Wire

TURNS = 200


@pytest.mark.parametrize("wire", ["chat", pytest.param("responses", marks=pytest.mark.slow)])
async def test_a_long_conversation_under_a_small_window_keeps_its_goal_and_its_size(tmp_path: Path, wire: Wire) -> None:
    model = RememberingModel(WINDOW)
    async with model:
        lived = await live(model, tmp_path, TURNS, wire=wire)
    assert model.faults == []
    assert lived.answer == f"the goal is to {GOAL}. the total is {lived.total}."
    assert model.summaries >= 5
    assert max(lived.tokens) <= WINDOW
    assert median(lived.memory[-20:]) - median(lived.memory[60:80]) < 8 * MB  # what it holds of 120 turns would be more if it grew
