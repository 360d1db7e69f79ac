"""Names of other servers' tools: taken by every provider, never twice, and found again by any spelling."""

import re

from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.mcp.servers import LONGEST, Spellings, offered_names

TOOLS = st.lists(st.tuples(st.text(max_size=40), st.text(max_size=120)), max_size=12)


@given(TOOLS)
def test_every_tool_has_one_name_that_providers_take_and_is_found_by_it(tools: list[tuple[str, str]]) -> None:
    named = offered_names(tools, ["shell"])
    assert set(named.values()) == set(tools)
    assert len({name.lower() for name in named}) == len(named)
    spellings = Spellings(named)
    for name, tool in named.items():
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)
        assert len(name) <= LONGEST
        assert spellings.find(name) == tool


def test_tools_whose_names_meet_are_told_apart_by_a_hash() -> None:
    named = offered_names([("srv", "a.b"), ("srv", "a b"), ("srv", "c")])
    assert len(named) == 3
    assert all(name == "mcp__srv__c" or re.fullmatch(r"mcp__srv__a_b_[0-9a-f]{12}", name) for name in named)


def test_a_spelling_that_could_mean_two_tools_means_none_but_an_exact_name_does() -> None:
    spellings = Spellings(offered_names([("srv", "dup-x"), ("srv", "dup.x"), ("other", "x")]))
    assert spellings.find("dup_x") is None
    assert spellings.find("srv__dup.x") == ("srv", "dup.x")
    assert spellings.find("mcp__srv__dup-x") == ("srv", "dup-x")
    assert spellings.find("OTHER.X") == spellings.find("x") == ("other", "x")
    assert spellings.find("") is None
