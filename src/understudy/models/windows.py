"""How much a model can read at once, as its server says: for models that are in no table. Only servers that tell it are asked."""

from typing import Any, cast

import msgspec

from understudy.config.providers import BY_ID
from understudy.errors import ConfigError, ModelError
from understudy.models.auth import Credentials
from understudy.models.catalogue import MOST_TOKENS, ListedModel, ask_json, read_models
from understudy.models.http import HttpClient
from understudy.models.http.url import Url
from understudy.models.http_model import request_url
from understudy.models.providers import Provider


async def ask_window(provider: Provider, model: str, credentials: Credentials, http: HttpClient, seconds: float) -> int | None:
    """In tokens. None where it does not say. Raises `ModelError` or `ConfigError` where nothing of it answers."""
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
    """From what a server tells of itself (llama.cpp) or of its models."""
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
    return listed[0] if found is None and len(listed) == 1 else found  # a server with one model serves it under any name
