"""What codex 0.153.4 says and sends when it compacts, uses other servers and looks at images, played against ours in `modern`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import agent_differences
from tests.golden.normalise import hide_instructions
from tests.golden.play import play
from tests.golden.test_goldens import assert_same
from understudy.testing import SERVER_COMMAND


@pytest.mark.parametrize("name", agent_differences.NAMES)
@pytest.mark.quick(4)
async def test_it_is_as_recorded_but_for_the_differences_with_a_reason(tmp_path: Path, name: str) -> None:
    wanted = agent_differences.load(name)
    agent_differences.apply(wanted)
    played = await play(wanted, tmp_path, SERVER_COMMAND, check_frames=True, in_modern=True)
    said = [step for step in wanted.steps if step.kind not in ("client", "model")]
    assert_same("messages of the server", said, played.server, played.stalled)
    asked = [hide_instructions(request.compared) for request in played.model]
    assert_same("requests to the model", agent_differences.asked_in(wanted), asked, played.stalled)
    assert name not in agent_differences.TABLE or not played.model[-2].tools
    assert played.faults == []
