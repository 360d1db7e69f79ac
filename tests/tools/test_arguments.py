"""Arguments that no tool can use are told to the model, however odd they are."""

import pytest

from understudy.errors import ToolError
from understudy.tools.calls import read_arguments
from understudy.tools.commands import ShellParams


@pytest.mark.parametrize(
    "arguments",
    [
        f'{{"command": ["a"], "timeout": {"9" * 5000}}}',
        '{"command": ["a"], "timeout": 1e999}',
        '{"command": ["\\ud800"]}',
        '{"command": %s}' % ("[" * 100_000),
        '{{"command": ["a"], "x": {}1{}}}'.format("[" * 1_000_000, "]" * 1_000_000),
        "\ud800",
        "",
    ],
    ids=["digits", "exponent", "surrogate", "nesting", "unknown", "broken", "empty"],
)
def test_odd_arguments_are_a_mistake_that_the_model_is_told(arguments: str) -> None:
    with pytest.raises(ToolError, match=r"^failed to parse function arguments: "):
        read_arguments(arguments, ShellParams, "ShellToolCallParams")
