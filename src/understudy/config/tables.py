"""Checks the types in tables that other layers read as written, so that errors are reported with their keys."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from understudy.config.providers import WIRES
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.protocol.records import Budget

N = TypeVar("N", int, float)


def check_providers(read: TreeReader) -> Mapping[str, Tree]:
    tables = read.named_tables("model_providers")
    for name, table in tables.items():
        provider = TreeReader(table, f"model_providers.{name}")
        for key in ("name", "base_url", "env_key", "env_key_instructions", "experimental_bearer_token"):
            provider.text(key)
        for key in ("query_params", "http_headers", "env_http_headers"):
            provider.text_table(key)
        for key in ("request_max_retries", "stream_max_retries", "stream_idle_timeout_ms"):
            provider.count(key)
        for key in ("requires_auth", "requires_openai_auth"):
            provider.flag(key)
        provider.choice("wire_api", WIRES)
    return tables


def read_budget(read: TreeReader, table: str) -> Budget:
    """What a conversation, or one call, may use."""
    read.table(table)
    return Budget(
        tokens=_above_zero(read, f"{table}.tokens", read.count),
        cost_usd=_above_zero(read, f"{table}.cost_usd", read.amount),
        seconds=_above_zero(read, f"{table}.seconds", read.amount),
        requests=_above_zero(read, f"{table}.requests", read.count),
    )


def _above_zero(read: TreeReader, key: str, number: Callable[[str], N | None]) -> N | None:
    value = number(key)
    if value == 0:
        raise read.mismatch(key, "invalid value: `0`", "a number above 0; without the key there is no limit")
    return value


def check_prices(read: TreeReader) -> Mapping[str, Mapping[str, float]]:
    """[understudy.prices]: the price of a million tokens for each model, in USD."""
    tables = read.named_tables("understudy.prices")
    found: dict[str, Mapping[str, float]] = {}
    for name, table in tables.items():
        prices = TreeReader(table, f'understudy.prices."{name}"')
        given = {key: prices.amount(key) for key in ("input", "cached", "output")}
        for key in ("input", "output"):
            if given[key] is None:
                raise Mismatch(prices.full(key), f"missing field `{key}`", "a number: USD for a million tokens")
        found[name] = {key: value for key, value in given.items() if value is not None}
    return found


def check_projects(read: TreeReader) -> Mapping[str, Tree]:
    tables = read.named_tables("projects")
    for name, table in tables.items():
        TreeReader(table, f'projects."{name}"').choice("trust_level", ("trusted", "untrusted"))
    return tables


def check_history(read: TreeReader) -> None:
    if read.table("history") is not None and read.text("history.persistence") is None:
        raise Mismatch("history", "missing field `persistence`", 'a table with `persistence = "save-all"` or `"none"`')
