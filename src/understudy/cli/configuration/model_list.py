"""`understudy model list`: the models of a provider, and what is known about each."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.text import Text

from understudy.cli.settings import read_config
from understudy.cli.tell.terminal import one_line, open_console
from understudy.cli.waiting import wait_for
from understudy.config.model import Config
from understudy.config.providers import BY_ID, UNADDRESSED
from understudy.errors import ConfigError, ModelError
from understudy.models.auth import Credentials
from understudy.models.catalogue import ListedModel, ask_models
from understudy.models.families import family_of
from understudy.models.prices import Price, models_of, own_prices, price_of
from understudy.models.providers import Provider, find_provider
from understudy.net import HttpClient
from understudy.protocol.records import Overrides

SECONDS = 5.0
ANY_MODEL = "none"
# Parts of names of models that do not answer with text, or do not hold conversations.
NOT_FOR_TALKING = (
    "embed", "tts", "whisper", "dall-e", "moderation", "image", "audio", "realtime", "transcribe", "sora", "imagen", "veo",
    "rerank", "babbage", "davinci", "voxtral", "ocr",
)  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    id: str
    current: bool  # configured, or the default
    context_window: int | None
    max_output: int | None
    reasoning: str | None
    efforts: tuple[str, ...]
    verbosity: bool | None
    parallel_calls: bool | None
    patch: str | None
    images: bool | None
    price: Price | None


def run(options: Namespace) -> int:
    config = _read(options)
    listed, problem = _listed(config, offline=options.offline)
    current = None if config.model == ANY_MODEL or config.assumes_model else config.model
    prices = own_prices(config.prices)
    shown = [entry for entry in listed if options.all or not any(part in entry.id.lower() for part in NOT_FOR_TALKING)]
    if current is not None and all(entry.id != current for entry in shown):
        shown.insert(0, ListedModel(current))
    rows = [_row(entry, entry.id == current, prices) for entry in shown]
    if options.json:
        asked = not options.offline and problem is None
        told: dict[str, Any] = {"provider": config.model_provider, "asked": asked, "problem": problem, "models": rows}
        print(msgspec.json.encode(told).decode())
    else:
        _print(config, rows, problem, offline=options.offline)
    return 0


def _read(options: Namespace) -> Config:
    """Works without a model, because whoever asks for the list may not have chosen one."""
    provider = [("model_provider", options.provider)] if options.provider else []
    flags = [*provider, ("model", "")] if options.provider else []
    try:
        return read_config(options, Overrides(), flags)
    except ConfigError:
        return read_config(options, Overrides(model=ANY_MODEL), provider)


def _listed(config: Config, *, offline: bool) -> tuple[list[ListedModel], str | None]:
    """The models that the provider lists; if it cannot be asked, those of our table, and why."""
    if config.model_provider in UNADDRESSED:
        return [ListedModel(config.model)], None
    row = BY_ID.get(config.model_provider)
    known = [ListedModel(model) for model in dict.fromkeys((row.default_model, *models_of(row.vendors)))] if row else []
    env: Mapping[str, str] = {**os.environ, "OPENAI_BASE_URL": config.openai_base_url} if config.openai_base_url else os.environ
    try:
        provider = find_provider(config.model_provider, config.provider_tables, env)
        if offline:
            return known, None
        return wait_for(lambda: _ask(provider, config)), None
    except (ModelError, ConfigError) as error:
        return known, str(error)


async def _ask(provider: Provider, config: Config) -> list[ListedModel]:
    http = HttpClient(os.environ, connect_seconds=SECONDS)
    try:
        return await ask_models(provider, Credentials(os.environ, config.home), http, SECONDS)
    finally:
        await http.aclose()


def _row(listed: ListedModel, current: bool, prices: Mapping[str, Price]) -> Row:
    family = family_of(listed.id)
    price = price_of(listed.id, prices) if listed.id in prices else listed.price or price_of(listed.id, prices)
    known = family if family.known else None
    return Row(
        id=listed.id,
        current=current,
        context_window=listed.window or family.window,
        max_output=listed.output or family.output,
        reasoning=None if known is None else known.reasoning,
        efforts=family.efforts,
        verbosity=None if known is None else known.verbosity,
        parallel_calls=None if known is None else known.parallel,
        patch=None if known is None else known.patch,
        images=None if known is None else known.eyes,
        price=price,
    )


HEADS = ("", "MODEL", "WINDOW", "OUTPUT", "REASONING", "IMAGES", "PATCH", "IN", "CACHED", "OUT")
TO_THE_RIGHT = {"WINDOW", "OUTPUT", "IN", "CACHED", "OUT"}


def _print(config: Config, rows: Sequence[Row], problem: str | None, *, offline: bool) -> None:
    console = open_console()
    lines = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(HEADS))]
    for number, line in enumerate(lines):
        padded = [
            (" " * (width - cell_len(cell)) + cell) if head in TO_THE_RIGHT else cell + " " * (width - cell_len(cell))
            for head, cell, width in zip(HEADS, line, widths, strict=True)
        ]
        console.print(Text("  ".join(padded).rstrip(), style="dim" if number == 0 else ""), soft_wrap=True)
    dates = sorted({row.price.date for row in rows if row.price is not None and row.price.date})
    if dates:
        console.print(Text(f"Prices in USD for a million tokens, as of {' and '.join(dates)}.", style="dim"), soft_wrap=True)
    if problem is not None:
        first, *rest = one_line_each(problem)
        print(f"understudy: {config.model_provider} could not be asked for its models: {first}", file=sys.stderr)
        for line in rest:
            print(f"  {line}", file=sys.stderr)
        print("  The list is of the models that understudy knows of itself.", file=sys.stderr)
    elif offline:
        print("understudy: the provider was not asked; these are the models that understudy knows of itself", file=sys.stderr)


def one_line_each(text: str) -> list[str]:
    return [one_line(line) for line in text.splitlines()] or [""]


def _cells(row: Row) -> tuple[str, ...]:
    price = row.price
    return (
        "*" if row.current else "",
        one_line(row.id),
        _tokens(row.context_window),
        _tokens(row.max_output),
        {"no": "no", None: ""}.get(row.reasoning, "yes"),
        {True: "yes", False: "no", None: ""}[row.images],
        row.patch or "",
        "" if price is None else f"{price.input:g}",
        "" if price is None or price.cached is None else f"{price.cached:g}",
        "" if price is None else f"{price.output:g}",
    )


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
