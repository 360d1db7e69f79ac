"""No server takes the place of another by what it calls its tools."""

import pytest

from understudy.tools.mcp.servers import Spellings, offered_names

BOTH = [("a", "b__c"), ("a__b", "c")]


@pytest.mark.parametrize("tools", [BOTH, BOTH[::-1]])
@pytest.mark.parametrize("name", ["mcp__a__b__c", "a__b__c", "mcp_a_b_c", "a.b.c"])
def test_a_name_that_two_servers_share_means_neither(tools: list[tuple[str, str]], name: str) -> None:
    named = offered_names(tools)
    assert sorted(named.values()) == BOTH
    assert Spellings(named).find(name) is None
    assert {offered: Spellings(named).find(offered) for offered in named} == named
