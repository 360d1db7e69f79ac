"""What is known of models by name, and what it costs to use them."""

import re
from pathlib import Path

import pytest

from understudy.config.providers import BUILT_IN
from understudy.models.families import DEFAULT_WINDOW, EFFORTS, FAMILIES, UNKNOWN, context_window, family_of, output_limit
from understudy.models.prices import PRICES, TARIFFS, Price, price_of
from understudy.protocol.items import Usage


@pytest.mark.parametrize(
    ("model", "window", "reasoning", "patch"),
    [
        ("gpt-6.1-sol", 1_050_000, "effort", "grammar"),
        ("gpt-5", 400_000, "effort", "grammar"),
        ("gpt-5.4-mini", 400_000, "effort", "grammar"),
        ("gpt-5-chat-latest", 128_000, "no", "function"),
        ("openai/gpt-5.5", 1_050_000, "effort", "grammar"),
        ("gpt-4o-mini", 128_000, "no", "function"),
        ("o3", 200_000, "effort", "function"),
        ("claude-sonnet-5-5", 1_000_000, "adaptive", "function"),
        ("anthropic/claude-opus-4.5", 200_000, "budget", "function"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, "budget", "function"),
        ("claude-of-next-year", 1_000_000, "adaptive", "function"),
        ("models/gemini-3.5-flash", 1_048_576, "effort", "function"),
        ("gpt-oss:20b", 131_072, "effort", "function"),
    ],
)
def test_a_model_belongs_to_the_family_with_the_longest_prefix(model: str, window: int, reasoning: str, patch: str) -> None:
    family = family_of(model)
    assert (family.window, family.reasoning, family.patch) == (window, reasoning, patch)


def test_a_model_nobody_has_heard_of_gets_sensible_defaults() -> None:
    assert family_of("something-new") is UNKNOWN
    assert (UNKNOWN.known, UNKNOWN.eyes, UNKNOWN.parallel, UNKNOWN.reasoning) == (False, True, True, "no")
    assert context_window("something-new") == DEFAULT_WINDOW
    assert context_window("something-new", 4_000) == context_window("gpt-5", 4_000) == 4_000
    assert output_limit("something-new") > 0


def test_an_effort_that_a_model_does_not_take_becomes_the_nearest_it_takes() -> None:
    opus = family_of("claude-opus-4-6")
    assert [opus.effort(level) for level in EFFORTS] == ["low", "low", "low", "medium", "high", "max", "max", "max"]
    assert UNKNOWN.effort("xhigh") == "xhigh"


def test_no_prefix_stands_in_the_table_twice() -> None:
    prefixes = [prefix for family in FAMILIES for prefix in family.prefixes]
    assert len(prefixes) == len(set(prefixes))
    models = [model for tariff in TARIFFS for model in tariff.rows]
    assert len(models) == len(set(models))


def test_every_price_has_a_source_and_a_date_and_a_model_of_a_known_family() -> None:
    for model, price in PRICES.items():
        assert family_of(model).known, model
        assert price.source.startswith(("https://", "reported by third parties"))
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.date)
        assert price.cached is None or price.cached < price.input < price.output


def test_the_default_models_of_paid_services_have_a_price() -> None:
    for row in BUILT_IN:
        if row.env_key or row.id == "openai":
            assert price_of(row.default_model, {}) is not None, row.id


def test_a_model_without_a_price_has_none_rather_than_zero() -> None:
    assert price_of("gpt-oss:20b", {}) is None
    assert price_of("something-new", {}) is None


def test_a_price_of_ones_own_wins_and_a_dated_name_is_the_model_without_the_date() -> None:
    own = Price(7.0, None, 9.0)
    assert price_of("gpt-5", {"gpt-5": own}) is own
    assert price_of("openai/gpt-5", {"gpt-5": own}) is own
    assert price_of("claude-sonnet-4-5-20250929", {}) is PRICES["claude-sonnet-4-5"]
    assert price_of("gpt-5.5-2026-04-23", {}) is PRICES["gpt-5.5"]
    assert price_of("openrouter/anthropic/claude-sonnet-5.5", {}) is PRICES["claude-sonnet-5-5"]


def test_cost_counts_cached_written_and_long_input_apart() -> None:
    price = Price(2.0, 0.2, 10.0, long_from=1_000_000)
    assert price.cost(Usage(1_000_000, 100_000, 1_100_000)) == pytest.approx(3.0)
    assert price.cost(Usage(1_000_000, 0, 1_000_000, cached_input_tokens=500_000)) == pytest.approx(1.1)
    assert price.cost(Usage(1_000_000, 0, 1_000_000, cache_write_input_tokens=1_000_000)) == pytest.approx(2.5)
    assert price.cost(Usage(2_000_000, 100_000, 2_100_000)) == pytest.approx(8.0 + 1.5)
    assert Price(2.0, None, 10.0).cost(Usage(1_000_000, 0, 1_000_000, cached_input_tokens=1_000_000)) == pytest.approx(2.0)
    assert price.cost(Usage(10, 0, 10, cached_input_tokens=99, cache_write_input_tokens=99)) == pytest.approx(2e-6)


def test_the_page_shows_every_vendor_of_the_price_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for tariff in TARIFFS:
        assert tariff.date in page
