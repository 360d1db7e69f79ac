"""Our own instructions: each model gets the parts that fit it and the tools it has."""

import re

from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.setup.setup import TRAITS, conditions, instructions_for
from understudy.models.families import FAMILIES, family_of

# What the text names as a tool; more may be offered.
FILE_TOOLS = ("read_file", "search", "list_files", "edit_file", "apply_patch")
NAMED = ("update_plan", "exec_command", "write_stdin", *FILE_TOOLS, "view_image")
COMES_WITH = {"write_stdin": "exec_command", "search": "read_file", "list_files": "read_file"}


def tools_in(text: str) -> set[str]:
    return {word for word in re.findall(r"`([a-z_]+)`", text) if word in NAMED}


@given(st.sets(st.sampled_from((*NAMED, *TRAITS, "mcp_servers", "of another server"))))
def test_no_tool_is_named_that_the_model_does_not_have(features: set[str]) -> None:
    text = instructions_for(features)
    assert text.startswith("You are Understudy")
    assert {COMES_WITH.get(name, name) for name in tools_in(text)} <= features
    assert "{{" not in text
    assert "\n\n\n" not in text


def test_every_condition_is_a_tool_or_a_trait_and_every_part_is_closed() -> None:
    assert conditions() <= {*NAMED, *TRAITS, "mcp_servers"}
    assert len(instructions_for(conditions())) > len(instructions_for(()))
    for family in FAMILIES:
        assert all(isinstance(getattr(family, trait), bool) for trait in TRAITS)


def test_families_differ_in_what_they_are_told() -> None:
    assert family_of("gpt-4o").commentary
    assert family_of("something-new").commentary
    assert not family_of("gpt-6.1-sol").commentary
    assert "# Talking while you work" in instructions_for(["commentary"])
    assert "# Talking while you work" not in instructions_for(["parallel"])
