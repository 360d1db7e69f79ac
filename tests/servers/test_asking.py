"""Answers to approval questions: every shape that clients send, and that all else is a no."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.protocol.jsonrpc import Response
from understudy.protocol.records import BudgetAsked
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.asking import CANCELLED, check_answer, read_answer, read_decision, read_word
from understudy.servers.questions import NOT_READABLE


@pytest.mark.parametrize(
    ("result", "decision"),
    [
        ({"decision": "approved"}, "approved"),
        ({"decision": "approved_for_session"}, "approved_for_session"),
        ({"decision": "denied"}, "denied"),
        ({"decision": "abort"}, "abort"),
        ({"decision": "timed_out"}, "denied"),
        ({"decision": "approved_mcp_policy_amendment"}, "approved"),
        ({"decision": {"denied": {"rejection": "why"}}}, "denied"),
        ({"decision": {"approved_execpolicy_amendment": {}}}, "approved"),
        ({"decision": {"network_policy_amendment": {"network_policy_amendment": {}}}}, "approved"),
        ({"decision": {"network_policy_amendment": {"network_policy_amendment": {"action": "allow"}}}}, "approved"),
        ({"decision": {"network_policy_amendment": {"network_policy_amendment": {"action": "deny"}}}}, "denied"),
        ({"decision": "approved", "action": "decline"}, "approved"),
        ({"action": "accept"}, "approved"),
        ({"action": "accept", "content": {"decision": "approved_for_session"}}, "approved_for_session"),
        ({"action": "accept", "content": {"decision": "abort"}}, "abort"),
        ({"action": "accept", "content": {"other": 1}}, "approved"),
        ({"action": "accept", "content": {}}, "approved"),
        ({"action": "accept", "content": None}, "approved"),
        ({"action": "accept", "content": "yes"}, "denied"),
        ({"action": "accept", "content": ["approved"]}, "denied"),
        ({"action": "accept", "content": True}, "denied"),
        ({"action": "accept", "content": {"decision": None}}, "denied"),
        ({"action": "accept", "content": {"decision": ["approved"]}}, "denied"),
        ({"action": "accept", "decision": None}, "denied"),
        ({"action": ["accept"]}, "denied"),
        ({"action": {"accept": True}}, "denied"),
        ({"action": None}, "denied"),
        ({"action": "decline"}, "denied"),
        ({"action": "cancel"}, "abort"),
        ({"action": "ACCEPT"}, "denied"),
        ({"decision": "perhaps"}, "denied"),
        ({"decision": {"rejected": {}}}, "denied"),
        ({"action": "accept", "content": {"decision": "denied"}}, "denied"),
        ({"action": "accept", "content": {"decision": "perhaps"}}, "denied"),
        ({"Decision": "approved"}, "denied"),
        ([], "denied"),
        (None, "denied"),
        (True, "denied"),
        ("approved", "denied"),
    ],
)
def test_a_result_is_read_as_one_of_four_decisions(result: Any, decision: str) -> None:
    cancelled = result == {"action": "cancel"}
    assert read_answer(Response(0, result)) == (decision, CANCELLED if cancelled else "client")


@pytest.mark.parametrize(
    ("result", "word"),
    [
        ({"decision": {"denied": {"rejection": " use make \n"}}}, "use make"),
        ({"action": "accept", "content": {"decision": {"denied": {"rejection": "why"}}}}, "why"),
        ({"decision": {"denied": {"rejection": "x" * 20_000}}}, "x" * 10_000),
        ({"decision": {"denied": {"rejection": 5}}}, ""),
        ({"decision": {"denied": "why"}}, ""),
        ({"decision": "denied", "rejection": "why"}, ""),
        ({"decision": "denied"}, ""),
        ({"action": "decline"}, ""),
        (None, ""),
    ],
)
def test_a_no_can_come_with_a_word_to_the_model(result: Any, word: str) -> None:
    assert read_word(Response(0, result)) == word
    assert read_word(Response(0, result, unreadable=True)) == ""
    assert read_word(Response(0, result, {"code": 1}, failed=True)) == ""


@pytest.mark.parametrize(
    "result",
    [
        {"decision": "timed_out"},
        {"decision": {"denied": {"rejection": "why"}}},
        {"action": "accept", "content": {"decision": {"denied": {}}}},
        {"decision": {"network_policy_amendment": {"network_policy_amendment": {"action": "deny"}}}},
    ],
)
def test_every_known_way_to_say_no_is_understood_where_others_are_refused(result: Any) -> None:
    check_answer(BudgetAsked("call1", "tokens", 2, 1, 3), result)


@pytest.mark.parametrize("result", [{"decision": "perhaps"}, {"decision": {"rejected": {}}}, {"decision": None}])
def test_a_decision_that_nobody_knows_is_refused_where_it_can_be(result: Any) -> None:
    with pytest.raises(InvalidParams, match="is no decision"):
        check_answer(BudgetAsked("call1", "tokens", 2, 1, 3), result)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": -32600, "message": "Elicitation not supported"}, ": Elicitation not supported"),
        ({"code": 1}, ': {"code":1}'),
        ("odd", ': "odd"'),
        ({"message": "two\nlines\x1b"}, ": two lines\\u{1b}"),
        (None, ""),
    ],
)
def test_an_error_is_a_no_that_says_so(error: Any, words: str) -> None:
    decision, source = read_answer(Response(0, None, error, failed=True))
    assert decision == "denied"
    assert source == f"the client answered the approval question with an error{words}"


def test_an_answer_that_nobody_can_read_is_a_no_that_says_so() -> None:
    assert read_answer(Response(0, {"decision": "approved"}, unreadable=True)) == ("denied", NOT_READABLE)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["approved", "accept", "abort"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["decision", "action", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(_json)
def test_nothing_but_a_clear_yes_approves(result: Any) -> None:
    decision, _ = read_answer(Response(0, result))
    assert decision in ("approved", "approved_for_session", "denied", "abort")
    if decision.startswith("approved"):
        assert "decision" in result or result["action"] == "accept"


@given(_json)
def test_any_decision_is_read(decision: Any) -> None:
    assert read_decision(decision) in ("approved", "approved_for_session", "denied", "abort")
