"""Tokens of other agents, from what they print."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from understudy.bench.command_agent import Used, read_usage


def test_the_turns_of_codex_are_added_up(tmp_path: Path) -> None:
    turn = {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 5}}
    (tmp_path / "log").write_text("Reading prompt\n" + 2 * (json.dumps(turn) + "\n") + '{"type": "turn.completed", "usage": 5}\n')
    assert read_usage(tmp_path / "log") == Used(210, {"input_tokens": 200, "cached_input_tokens": 80, "output_tokens": 10})


def test_the_steps_of_opencode_are_added_up_with_their_cost(tmp_path: Path) -> None:
    tokens = {"input": 10, "output": 4, "reasoning": 1, "cache": {"read": 90, "write": 0}}
    step = {"type": "step_finish", "part": {"type": "step-finish", "cost": 0.25, "tokens": tokens}}
    (tmp_path / "log").write_text(2 * (json.dumps(step) + "\n"))
    expected = {"input_tokens": 200, "cached_input_tokens": 180, "output_tokens": 10}
    assert read_usage(tmp_path / "log") == Used(210, expected, 0.5)


@given(data=st.binary(max_size=400))
def test_whatever_is_printed_is_read(tmp_path_factory: object, data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "log").write_bytes(b'{"tokens": ' + data)
        assert read_usage(Path(folder) / "log").tokens is None
