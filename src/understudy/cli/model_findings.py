"""What `doctor` finds about the model: the provider, its key, whether it can be reached and, if asked, whether it answers."""

import asyncio
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from understudy.cli.config_findings import ANY_MODEL
from understudy.cli.finding import Finding
from understudy.cli.waiting import wait_for
from understudy.config.model import Config
from understudy.engine.setup import Setups
from understudy.errors import AgentError, ConfigError, ModelError
from understudy.models.auth import Credentials
from understudy.models.http import HttpFailure, Url, parse_url
from understudy.models.http.connect import open_connection
from understudy.models.http.connection import Connection
from understudy.models.http.proxy import proxy_for
from understudy.models.http.tls import client_context
from understudy.models.prompt import Prompt
from understudy.models.providers import REPLAY, UNADDRESSED, Provider, find_provider
from understudy.protocol.items import InputText, Message

SECTION = "Model"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 45.0


def examine_model(config: Config, *, online: bool) -> Iterator[Finding]:
    if config.model != ANY_MODEL:
        yield Finding(SECTION, "model", "ok", config.model)
    env: Mapping[str, str] = {**os.environ, "OPENAI_BASE_URL": config.openai_base_url} if config.openai_base_url else os.environ
    try:
        provider = find_provider(config.model_provider, config.provider_tables, env)
        url = None if provider.id in UNADDRESSED else parse_url(provider.base_url)
    except (ConfigError, ValueError) as error:
        yield Finding(SECTION, "provider", "broken", str(error))
        return
    if provider.id == REPLAY:
        yield Finding(SECTION, "provider", "ok", f"replay: plays the recording {config.replay}, no key needed")
        return
    if url is None:
        yield Finding(SECTION, "provider", "ok", f"scripted: plays {config.scripted_model or 'its built-in script'}, no key needed")
        return
    yield Finding(SECTION, "provider", "ok", f"{provider.name} at {url}, {provider.wire_api} wire")
    usable = True
    for finding in (_key(config, provider), _connection(url)):
        usable = usable and finding.level != "broken"
        yield finding
    if online and usable and config.model != ANY_MODEL:
        yield _answer(config, env)
    elif not online:
        yield Finding(SECTION, "answer", "info", "not asked; `understudy doctor --online` asks it for one word, with the key")


def _key(config: Config, provider: Provider) -> Finding:
    try:
        credentials = Credentials(os.environ, config.home)
        key = credentials.key_for(provider)
    except ModelError as error:
        return Finding(SECTION, "key", "broken", str(error))
    return Finding(SECTION, "key", "ok", f"present, from {credentials.source_of(provider)}" if key is not None else "none needed")


def _connection(url: Url) -> Finding:
    try:
        proxy = wait_for(lambda: _connect(url))
    except HttpFailure as failure:
        hint = "check the network, base_url, proxy variables (HTTPS_PROXY, NO_PROXY) and SSL_CERT_FILE; a local service must run"
        return Finding(SECTION, "connection", "broken", str(failure), (hint,))
    through = f" through the proxy {proxy.scheme}://{proxy.authority}" if proxy else ""
    return Finding(SECTION, "connection", "ok", f"reached{through}")


async def _connect(url: Url) -> Url | None:
    """As a request would, up to the moment where it is sent. Raises `HttpFailure`."""
    proxy = proxy_for(url, os.environ)
    connection = Connection(lambda _: None, lambda _: None)
    await open_connection(connection, url, proxy=proxy, tls=lambda: client_context(os.environ), seconds=CONNECT_SECONDS)
    connection.abort()
    await asyncio.sleep(0)
    return proxy


def _answer(config: Config, env: Mapping[str, str]) -> Finding:
    try:
        wait_for(lambda: _ask(config, env))
    except AgentError as error:
        first, *rest = str(error).split("\n")
        return Finding(SECTION, "answer", "broken", first, tuple(rest) or ("check the key, the model's name and base_url",))
    except TimeoutError:
        return Finding(SECTION, "answer", "broken", f"{config.model} has not answered within {ANSWER_SECONDS:.0f} seconds")
    return Finding(SECTION, "answer", "ok", f"{config.model} answers")


async def _ask(config: Config, env: Mapping[str, str]) -> None:
    """One word, by the very way that a turn takes. Raises `AgentError` or `TimeoutError`."""
    setups = Setups(env)
    try:
        model = setups.prepare(config, Path(os.devnull)).model
        question = Message("user", (InputText("Answer with the single word OK."),))
        prompt = Prompt("You answer with a single word.", (question,), (), str(uuid.uuid4()))
        async with asyncio.timeout(ANSWER_SECONDS), model.stream(prompt) as answer:
            async for _ in answer:
                return
    finally:
        await setups.aclose()
