"""Which tools a model is offered, and which of them may run beside others."""

import json

import pytest

from understudy.engine.setup.setup import conditions, instructions_for
from understudy.models.families import FAMILIES, UNKNOWN, Family, family_of
from understudy.tools.registry import TOOLS, OfferConditions, offered, only_reads

ALL = [entry.names[0] for entry in TOOLS]
NEEDED = {"shell", "read_file", "search", "list_files", "edit_file", "update_plan"}
MOST_BYTES = 11_350  # with these the request of a short task has less than 12,000
READING = {"read_file", "search", "list_files", "view_image"}


def names_for(without: tuple[str, ...]) -> list[str]:
    return [spec.name for spec in offered(OfferConditions("on-request", "workspace-write", True, 60, without=without))]


@pytest.mark.parametrize("model", ["something-new", "gpt-6.1-sol", "gpt-5.2-codex", "codex-mini-latest", "claude-sonnet-5"])
def test_a_strong_or_unknown_model_is_offered_every_tool_in_their_order(model: str) -> None:
    assert names_for(family_of(model).without) == ALL


@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4", "meta/llama-3.1-8b", "llama3", "qwen2.5-coder:7b"])
def test_a_model_that_fails_at_patches_edits_by_exact_text(model: str) -> None:
    names = names_for(family_of(model).without)
    assert names == [name for name in ALL if name not in ("apply_patch", "exec_command", "write_stdin")]


@pytest.mark.parametrize("family", [UNKNOWN, *FAMILIES], ids=lambda family: (*family.prefixes, "unknown")[0])
def test_every_family_can_run_read_and_edit_and_misses_only_tools_that_there_are(family: Family) -> None:
    without = family.without
    assert set(without) <= set(ALL)
    assert set(names_for(without)) >= NEEDED
    assert ("exec_command" in without) == ("write_stdin" in without)


def test_only_tools_that_change_nothing_and_ask_nobody_run_beside_others() -> None:
    assert {name for entry in TOOLS for name in entry.names if only_reads(name)} == READING
    assert not only_reads("mcp__server__read_file")


def test_what_goes_along_with_every_request_is_short() -> None:
    """For a model that nobody knows: all tools, and all parts of the instructions."""
    tools = offered(OfferConditions("never", "workspace-write", True, 60, without=UNKNOWN.without))
    told = [{"name": each.name, "description": each.description, "strict": False, "parameters": each.parameters} for each in tools]
    sent = json.dumps({"instructions": instructions_for(conditions()), "tools": told}, separators=(",", ":"))
    assert len(sent.encode()) <= MOST_BYTES
