"""Which models a provider lists, what it says about them, and how large their context is."""

import asyncio
from typing import Any, cast

import msgspec

from understudy import __version__
from understudy.config.providers import BY_ID
from understudy.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from understudy.models.auth import Credentials, key_header, redacted, secrets_of
from understudy.models.failures import FailureHints, clipped, fault_in_body, with_hint
from understudy.models.http_model import request_url
from understudy.models.mending import read_mended
from understudy.models.prices import MILLION, Price
from understudy.models.providers import Provider
from understudy.net import HttpClient, HttpFailure
from understudy.net.addresses import Url

MOST_BYTES = 16 * 1024 * 1024
MOST_TOKENS = 10**9
ANTHROPIC_VERSION = "2023-06-01"
WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "loaded_context_length", "max_context_length")


class ListedModel(msgspec.Struct, frozen=True):
    """A model as its provider lists it. Fields are None if the provider does not say."""

    id: str
    window: int | None = None
    output: int | None = None
    price: Price | None = None


async def ask_models(provider: Provider, credentials: Credentials, http: HttpClient, seconds: float) -> list[ListedModel]:
    """The provider's models in its order, within `seconds`. Raises ModelError or ConfigError."""
    url = request_url(provider, "/models")
    try:
        return read_models(await ask_json(provider, url, credentials, http, seconds))
    except ValueError:
        raise ModelRefused(f"{url} did not answer with a list of models") from None


async def ask_json(provider: Provider, url: Url, credentials: Credentials, http: HttpClient, seconds: float) -> Any:
    """The answer to a GET with the provider's key. Raises ModelError or ConfigError, or ValueError if it is not JSON."""
    key = await credentials.key_soon(provider)
    from_env = credentials.headers_for(provider)
    headers = {"accept": ("Accept", "application/json"), "user-agent": ("User-Agent", f"understudy/{__version__}")}
    if provider.wire_api == "anthropic":
        headers["anthropic-version"] = "anthropic-version", ANTHROPIC_VERSION
    for name, value in (*provider.http_headers.items(), *((name, secret.reveal()) for name, secret in from_env.items())):
        headers[name.lower()] = name, value
    secrets = [*from_env.values(), *secrets_of(provider)]
    if key is not None:
        secrets.append(key)
        name, value = key_header(provider, key)
        headers[name.lower()] = name, value
    hints = FailureHints(provider, url, "", credentials)
    try:
        async with asyncio.timeout(seconds):
            response = await http.get(url, list(headers.values()), seconds=seconds)
            body = await response.read_text(seconds, MOST_BYTES)
    except TimeoutError:
        raise ModelUnavailable(f"{url} did not answer within {seconds:g} seconds") from None
    except HttpFailure as failure:
        raise ModelUnavailable(with_hint(str(failure), hints.for_failure(failure))) from None
    if not 200 <= response.status < 300:
        fault = fault_in_body(redacted(body, secrets))
        told = f"{url} answered with status {response.status}" + (f": {clipped(fault.message)}" if fault.message else "")
        raise ModelRefused(with_hint(told, hints.for_status(response.status, fault.codes, "")))
    return read_mended(body.encode())


def read_models(value: Any) -> list[ListedModel]:
    """Reads providers' answers: a list under `data` (OpenAI, Anthropic, OpenRouter, vLLM) or `models`. Raises ValueError."""
    table = cast(dict[str, Any], value) if isinstance(value, dict) else {"data": value}
    entries = next((table[key] for key in ("data", "models") if isinstance(table.get(key), list)), None)
    if entries is None:
        raise ValueError("no list")
    return list({listed.id: listed for entry in cast(list[Any], entries) if (listed := _read(entry)) is not None}.values())


def _read(entry: Any) -> ListedModel | None:
    if isinstance(entry, str):
        entry = {"id": entry}
    if not isinstance(entry, dict):
        return None
    table = cast(dict[str, Any], entry)
    name = next((value for key in ("id", "name", "model") if isinstance(value := table.get(key), str) and value), None)
    if name is None:
        return None
    meta = table.get("meta")
    window = next((count for key in WINDOWS if (count := _count(table.get(key)))), None)
    if window is None and isinstance(meta, dict):  # llama.cpp
        window = _count(cast(dict[str, Any], meta).get("n_ctx")) or _count(cast(dict[str, Any], meta).get("n_ctx_train"))
    return ListedModel(name.removeprefix("models/"), window, _count(table.get("max_tokens")), _price(table.get("pricing")))


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value <= MOST_TOKENS else None


def _price(value: Any) -> Price | None:
    """In OpenRouter's form: USD for one token, as text."""
    if not isinstance(value, dict):
        return None
    table = cast(dict[str, Any], value)
    sent, received, cached = (_usd(table.get(key)) for key in ("prompt", "completion", "input_cache_read"))
    return None if sent is None or received is None else Price(sent, cached, received, source="provider")


def _usd(value: Any) -> float | None:
    try:
        amount = float(value) * MILLION if isinstance(value, str | float | int) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return round(amount, 6) if amount is not None and 0 <= amount < MILLION else None


async def ask_window(provider: Provider, model: str, credentials: Credentials, http: HttpClient, seconds: float) -> int | None:
    """In tokens. None if the provider does not say. Raises `ModelError` or `ConfigError` if no address answers."""
    failure: ModelError | ConfigError | None = None
    for place in BY_ID[provider.id].window_at if provider.id in BY_ID else ():
        try:
            told = await ask_json(provider, _url(provider, place), credentials, http, seconds)
        except (ModelError, ConfigError) as error:
            failure = failure or error
        except ValueError:
            pass  # not JSON
        else:
            if (window := read_window(told, model)) is not None:
                return window
    if failure is not None:
        raise failure
    return None


def _url(provider: Provider, place: str) -> Url:
    if not place.startswith(".."):
        return request_url(provider, place)
    base, mark, query = provider.base_url.partition("?")
    above = base.strip().rstrip("/").removesuffix("/v1") + mark + query
    return request_url(msgspec.structs.replace(provider, base_url=above), place.removeprefix(".."))


def read_window(told: Any, model: str) -> int | None:
    """From what a server says about itself (llama.cpp) or its models."""
    if isinstance(told, dict):
        settings = cast(dict[str, Any], told).get("default_generation_settings")
        if isinstance(settings, dict):
            window = cast(dict[str, Any], settings).get("n_ctx")
            return window if type(window) is int and 0 < window <= MOST_TOKENS else None
    try:
        listed = read_models(told)
    except ValueError:
        return None
    found = _find(listed, model)
    return None if found is None else found.window


def _find(listed: list[ListedModel], model: str) -> ListedModel | None:
    by_id = {each.id: each for each in listed}
    found = by_id.get(model) or by_id.get(f"{model}:latest")
    return listed[0] if found is None and len(listed) == 1 else found  # a server with one model serves it under every name
