"""What tokens cost: the only price table, with sources and dates. Users may set their own prices.

A model that is missing has no price: its cost is unknown, which is not the same as zero.
"""

from collections.abc import Mapping

import msgspec

from understudy.models.families import plain_name
from understudy.protocol.items import Usage

CACHE_WRITE = 1.25  # times the price of input, if a provider counts writes to its cache
LONG_INPUT, LONG_OUTPUT = 2.0, 1.5  # times the price, for all tokens of a request that is longer than `long_from`
MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True):
    """USD per million tokens."""

    input: float
    cached: float | None  # None: same as `input`
    output: float
    long_from: int | None = None  # input tokens above which a request costs more
    source: str = "configuration"
    date: str = ""  # when the source was read

    def cost(self, usage: Usage) -> float:
        """USD for one answer."""
        long = self.long_from is not None and usage.input_tokens > self.long_from
        cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
        written = min(usage.cache_write_input_tokens or 0, usage.input_tokens - cached)
        plain = usage.input_tokens - cached - written
        from_cache = self.input if self.cached is None else self.cached
        sent = plain * self.input + written * self.input * CACHE_WRITE + cached * from_cache
        received = usage.output_tokens * self.output
        return (sent * (LONG_INPUT if long else 1.0) + received * (LONG_OUTPUT if long else 1.0)) / MILLION


class Tariff(msgspec.Struct, frozen=True):
    """The prices of one vendor, from one source."""

    vendor: str
    source: str
    date: str
    long_from: int | None
    rows: Mapping[str, tuple[float, float | None, float]]  # model: input, cached, output


_MODELS_DEV = "https://models.dev"
_REPORTED = "reported by third parties, not read on the vendor's price page"

TARIFFS = (
    Tariff(
        "openai",
        "https://developers.openai.com/api/docs/pricing",
        "2026-09-30",
        272_000,
        {
            "gpt-6.1-sol": (2.0, 0.10, 10.0),
            "gpt-6-sol": (2.0, 0.20, 10.0),
            "gpt-5.6": (4.0, 0.40, 20.0),
            "gpt-5.6-sol": (4.0, 0.40, 20.0),
        },
    ),
    Tariff(
        "openai",
        _REPORTED,
        "2026-09-30",
        272_000,
        {
            "gpt-6.1-terra": (1.0, 0.05, 5.0),
            "gpt-6-astra": (10.0, 1.0, 50.0),
            "gpt-6-luna": (0.10, 0.01, 0.50),
            "gpt-5.6-terra": (2.0, 0.20, 12.0),
            "gpt-5.6-luna": (0.20, 0.02, 1.20),
        },
    ),
    Tariff("anthropic", _REPORTED, "2026-09-30", None, {"claude-fable-5-1": (10.0, 0.25, 50.0)}),
    Tariff(
        "openai",
        _MODELS_DEV,
        "2026-07-02",
        272_000,
        {
            "gpt-5.5": (5.0, 0.50, 30.0),
            "gpt-5.5-pro": (30.0, None, 180.0),
            "gpt-5.4": (2.5, 0.25, 15.0),
            "gpt-5.4-pro": (30.0, None, 180.0),
        },
    ),
    Tariff(
        "openai",
        _MODELS_DEV,
        "2026-07-02",
        None,
        {
            "gpt-5.4-mini": (0.75, 0.075, 4.5),
            "gpt-5.4-nano": (0.20, 0.02, 1.25),
            "gpt-5.3-codex": (1.75, 0.175, 14.0),
            "gpt-5.2": (1.75, 0.175, 14.0),
            "gpt-5.2-codex": (1.75, 0.175, 14.0),
            "gpt-5.2-pro": (21.0, None, 168.0),
            "gpt-5.1": (1.25, 0.125, 10.0),
            "gpt-5.1-codex": (1.25, 0.125, 10.0),
            "gpt-5.1-codex-max": (1.25, 0.125, 10.0),
            "gpt-5.1-codex-mini": (0.25, 0.025, 2.0),
            "gpt-5": (1.25, 0.125, 10.0),
            "gpt-5-codex": (1.25, 0.125, 10.0),
            "gpt-5-mini": (0.25, 0.025, 2.0),
            "gpt-5-nano": (0.05, 0.005, 0.40),
            "gpt-5-pro": (15.0, None, 120.0),
            "gpt-4.1": (2.0, 0.50, 8.0),
            "gpt-4.1-mini": (0.40, 0.10, 1.60),
            "gpt-4.1-nano": (0.10, 0.025, 0.40),
            "gpt-4o": (2.5, 1.25, 10.0),
            "gpt-4o-mini": (0.15, 0.075, 0.60),
            "o3": (2.0, 0.50, 8.0),
            "o3-mini": (1.10, 0.55, 4.40),
            "o4-mini": (1.10, 0.275, 4.40),
        },
    ),
    Tariff(
        "anthropic",
        "https://platform.claude.com/docs/en/about-claude/pricing",
        "2026-09-30",
        None,
        {
            "claude-opus-5-5": (4.0, 0.20, 20.0),
            "claude-opus-5": (5.0, 0.50, 25.0),
            "claude-sonnet-5-5": (2.0, 0.20, 10.0),
            "claude-sonnet-5": (2.0, 0.20, 10.0),
            "claude-haiku-4-5": (1.0, 0.10, 5.0),
        },
    ),
    Tariff(
        "anthropic",
        _MODELS_DEV,
        "2026-07-02",
        None,
        {
            "claude-fable-5": (10.0, 1.0, 50.0),
            "claude-opus-4-8": (5.0, 0.50, 25.0),
            "claude-opus-4-7": (5.0, 0.50, 25.0),
            "claude-opus-4-6": (5.0, 0.50, 25.0),
            "claude-opus-4-5": (5.0, 0.50, 25.0),
            "claude-opus-4-1": (15.0, 1.50, 75.0),
            "claude-sonnet-4-6": (3.0, 0.30, 15.0),
            "claude-sonnet-4-5": (3.0, 0.30, 15.0),
        },
    ),
    Tariff(
        "google",
        _MODELS_DEV,
        "2026-07-02",
        200_000,
        {
            "gemini-3.1-pro-preview": (2.0, 0.20, 12.0),
            "gemini-3-pro-preview": (2.0, 0.20, 12.0),
            "gemini-2.5-pro": (1.25, 0.125, 10.0),
        },
    ),
    Tariff(
        "google",
        _MODELS_DEV,
        "2026-07-02",
        None,
        {
            "gemini-3.5-flash": (1.50, 0.15, 9.0),
            "gemini-3.1-flash-lite": (0.25, 0.025, 1.50),
            "gemini-3-flash-preview": (0.50, 0.05, 3.0),
            "gemini-2.5-flash": (0.30, 0.03, 2.50),
            "gemini-2.5-flash-lite": (0.10, 0.01, 0.40),
        },
    ),
    Tariff(
        "others",
        _MODELS_DEV,
        "2026-07-02",
        None,
        {
            "deepseek-v4-pro": (0.435, 0.003625, 0.87),
            "deepseek-v4-flash": (0.14, 0.0028, 0.28),
            "grok-4.3": (1.25, 0.20, 2.50),
            "kimi-k2.6": (0.95, 0.16, 4.0),
            "kimi-k2.7-code": (0.95, 0.19, 4.0),
            "glm-5.2": (1.40, 0.26, 4.40),
            "glm-5.1": (1.40, 0.26, 4.40),
            "devstral-2512": (0.40, None, 2.0),
        },
    ),
)
PRICES = {
    model: Price(*row, tariff.long_from, tariff.source, tariff.date) for tariff in TARIFFS for model, row in tariff.rows.items()
}


def own_prices(tables: Mapping[str, Mapping[str, float]]) -> dict[str, Price]:
    """Prices that the user has set in [understudy.prices]."""
    return {model: Price(table["input"], table.get("cached"), table["output"]) for model, table in tables.items()}


def price_of(model: str, own: Mapping[str, Price]) -> Price | None:
    """The user's own price for exactly this name first; then the table's, also for a listed model's name with a date."""
    if model in own:
        return own[model]
    name = plain_name(model)
    return own.get(name) or PRICES.get(name) or PRICES.get(_undated(name))


def models_of(vendors: tuple[str, ...]) -> list[str]:
    """Models in the table by one of these vendors."""
    return [model for tariff in TARIFFS if tariff.vendor in vendors for model in tariff.rows]


def _undated(name: str) -> str:
    """Names such as `gpt-5.5-2026-04-23` and `claude-sonnet-4-5-20250929` without the date."""
    parts = name.split("-")
    if len(parts) > 3 and [len(part) for part in parts[-3:]] == [4, 2, 2] and "".join(parts[-3:]).isdecimal():
        return "-".join(parts[:-3])
    if len(parts) > 1 and len(parts[-1]) == 8 and parts[-1].isdecimal():
        return "-".join(parts[:-1])
    return name
