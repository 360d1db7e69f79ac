"""Days, weeks and months of people's budgets, by the calendar of UTC."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config.tokens import parse_budget
from understudy.engine.turn.accounts import begin, next_begin
from understudy.protocol.callers import PersonBudget
from understudy.protocol.choices import PERIODS, Period


@given(st.dates(date(1990, 1, 1), date(2100, 1, 1)), st.sampled_from(PERIODS))
def test_each_day_lies_in_exactly_one_period(today: date, period: Period) -> None:
    first, after = begin(period, today), next_begin(period, today)
    assert first <= today < after
    assert begin(period, after) == after
    assert {begin(period, first + timedelta(days=n)) for n in range((after - first).days)} == {first}
    assert {"day": first == today, "week": first.weekday() == 0, "month": first.day == 1}[period]


def test_a_budget_is_read_and_written_alike() -> None:
    assert parse_budget("cost_usd=50/month") == PersonBudget("cost_usd", 50, "month")
    for text in ("cost_usd=0.25/day", "tokens=1000000/week", "tokens=12345678/day", "requests=3/month"):
        assert str(parse_budget(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "50",
        "cost_usd=50",
        "seconds=5/day",
        "tokens=0/day",
        "tokens=1.5/day",
        "tokens=-1/day",
        "tokens=1/year",
        "tokens=1e9/day",
    ],
)
def test_what_is_none_says_what_it_should_be(text: str) -> None:
    with pytest.raises(ValueError, match="for example cost_usd=50/month"):
        parse_budget(text)
