"""What `doctor` finds in the configuration: every value as a conversation would use it, the provider, its key, and whether the
model can be reached.
"""

import asyncio
import os
import tempfile
import uuid
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from understudy.cli.doctor.file_findings import instructions
from understudy.cli.settings import read_overrides
from understudy.cli.waiting import wait_for
from understudy.config.file import read_config_file
from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.engine.hooks.loading import load_hooks, untrusted_folders
from understudy.engine.services.notifying import find_program
from understudy.engine.setup.setup import Setups
from understudy.errors import AgentError, ConfigError, ModelError
from understudy.models.auth import Credentials
from understudy.models.model import Prompt
from understudy.models.providers import REPLAY, UNADDRESSED, Provider, find_provider
from understudy.net import HttpFailure, Url, parse_url
from understudy.net.addresses import proxy_for
from understudy.net.connect import open_connection
from understudy.net.connection import Connection
from understudy.net.tls import client_context
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides

Level = Literal["ok", "info", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """If something is wrong, the text or the details say what to do."""

    section: str
    name: str
    level: Level
    text: str
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"section": self.section, "name": self.name, "level": self.level, "text": self.text}
        return {**told, "details": list(self.details)} if self.details else told


CONFIGURATION = "Configuration"
ANY_MODEL = "none"  # so that a missing model does not hide other findings
_JUDGED_TOGETHER = frozenset(("profile", "profiles", "model_provider", "model"))

Flags = list[tuple[str, Any]]


def examine_configuration(home: Path, options: Namespace) -> tuple[Config | None, list[Finding]]:
    """What a conversation begun here would use, as far as that can be found out, and what is wrong with it."""
    path = home / "config.toml"
    found = [
        Finding(CONFIGURATION, "file", "ok", str(path))
        if os.path.lexists(path)
        else Finding(CONFIGURATION, "file", "info", f"{path}, which is not there")
    ]
    flags = read_overrides(options)
    config, wrong = _try(home, Overrides(), flags)
    if config is not None:
        text = f"approval {config.approval_policy}, sandbox {config.sandbox.mode} for {config.cwd}"
        found.append(Finding(CONFIGURATION, "settings", "ok", text))
    else:
        found += [
            Finding(CONFIGURATION, "settings", "broken", *said) for said in dict.fromkeys((wrong, *_others_wrong(home, flags)))
        ]
        config, _ = _try(home, Overrides(model=ANY_MODEL), flags, usable=False)
    if config is not None:
        found += [Finding(CONFIGURATION, "settings", "warning", warning) for warning in (*config.warnings, *config.notices)]
        if config.policy_rules:
            found.append(Finding(CONFIGURATION, "rules", "ok", _rules(config)))
        found += _notify(config)
        found += _hooks(config)
        found += _docs(config)
    found += _profiles(home, flags, wrong)
    found += _auth_file(home)
    return config, found


def _rules(config: Config) -> str:
    """How many, and where they are: those of Claude Code's settings stand behind the user's own."""
    theirs = sum(str(table.get("name", "")).endswith(f" in {config.claude_home}/settings.json") for table in config.policy_rules)
    own = len(config.policy_rules) - theirs
    counts = ((own, "[[policy.rules]]"), (theirs, f"{config.claude_home}/settings.json"))
    return ", ".join(f"{count} in {place}" for count, place in counts if count)


def _notify(config: Config) -> list[Finding]:
    """Searched as at the end of a turn: below the home, or in PATH."""
    if not config.notify:
        return []
    name = config.notify[0]
    program = find_program(name, config.home, os.environ.get("PATH", ""))
    if program is not None:
        return [Finding(CONFIGURATION, "notify", "ok", program)]
    what_to_do = "give the path of a file that can be executed, or a name that is in PATH"
    return [Finding(CONFIGURATION, "notify", "warning", f"`{name}` is no program that can be run", (what_to_do,))]


def _hooks(config: Config) -> list[Finding]:
    """Hooks that are active, and what keeps others from being so."""
    try:
        loaded = load_hooks(config.cwd, config.home, os.environ, config.hooks, untrusted_folders(config.projects))
    except ConfigError as error:
        return [Finding(CONFIGURATION, "hooks", "broken", str(error))]
    counted = sum(each.counts for each in loaded.judged)
    found = [Finding(CONFIGURATION, "hooks", "ok", f"{counted} that count here")] if counted else []
    return [*found, *(Finding(CONFIGURATION, "hooks", "warning", notice) for notice in loaded.notices)]


_Said = tuple[str, tuple[str, ...]]


def _try(home: Path, overrides: Overrides, flags: Flags, *, usable: bool = True) -> tuple[Config | None, _Said]:
    """The configuration, or what is wrong with it; `usable` also checks all that a turn would make from it."""
    try:
        config = load_config(home, overrides, cli=flags, server_cwd=Path.cwd(), env=os.environ)
        if usable:
            Setups(os.environ).prepare(config, lambda: home).settings()
    except ConfigError as error:
        return None, _said(error)
    return config, ("", ())


def _said(error: ConfigError) -> _Said:
    lines = str(error).split("\n")
    if (
        lines[0].startswith("TOML parse error") and len(lines) == 6
    ):  # a caret that points at the place makes no sense in wrapped lines
        place, _, source, _, reason, file = lines
        return f"{place}: {reason}", (source, file)
    return lines[0], tuple(lines[1:])


def _others_wrong(home: Path, flags: Flags) -> Iterator[_Said]:
    """Further wrong values, each found separately, because checking a whole configuration reports only the first."""
    _, said = _try(home, Overrides(model=ANY_MODEL), flags)
    if said[0]:
        yield said
    try:
        tree = read_config_file(home).tree
    except ConfigError:
        return
    with tempfile.TemporaryDirectory() as empty:
        for key, value in tree.items():
            if key in _JUDGED_TOGETHER or "." in key:
                continue
            _, (first, rest) = _try(Path(empty), Overrides(model=ANY_MODEL), [(key, value)], usable=False)
            if first:
                first, *rest = (line.replace("`-c`", str(home / "config.toml")) for line in (first, *rest))
                yield first, tuple(rest)


def _profiles(home: Path, flags: Flags, wrong: _Said) -> Iterator[Finding]:
    """`wrong` is what is wrong without a profile."""
    try:
        profiles = read_config_file(home).tree.get("profiles")
    except ConfigError:
        return
    if not isinstance(profiles, Mapping):
        return
    known = {wrong, _try(home, Overrides(model=ANY_MODEL), flags)[1]}
    for name in cast(Mapping[str, object], profiles):
        _, said = _try(home, Overrides(profile=name), flags)
        if said == wrong:
            _, said = _try(home, Overrides(profile=name, model=ANY_MODEL), flags)
        if not said[0]:
            yield Finding(CONFIGURATION, f"profile {name}", "info" if wrong[0] else "ok", "nothing of its own is wrong")
        elif said not in known:
            yield Finding(CONFIGURATION, f"profile {name}", "broken", *said)


def default_config() -> Config | None:
    """The configuration of someone who has none, for checks that can be made all the same."""
    with tempfile.TemporaryDirectory() as empty:
        return _try(Path(empty), Overrides(model=ANY_MODEL), [], usable=False)[0]


def _docs(config: Config) -> Iterator[Finding]:
    """The files that instruct the model, and those that would if something did not prevent it."""
    for row in instructions(config):
        name = os.path.basename(row.path)
        if row.standing == "counts":
            yield Finding(CONFIGURATION, name, "warning" if row.why else "ok", row.path + (f": {row.why}" if row.why else ""))
        elif not row.by_choice:
            yield Finding(CONFIGURATION, name, "warning", f"{row.path}: {row.why}")


def _auth_file(home: Path) -> Iterator[Finding]:
    path = home / "auth.json"
    try:
        mode = path.stat().st_mode & 0o777
        content = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding(CONFIGURATION, "auth.json", "warning", f"{path} cannot be read: {error.strerror}")
        return
    except (msgspec.DecodeError, ValueError):
        yield Finding(CONFIGURATION, "auth.json", "warning", f"{path} is not valid JSON, so no key is taken from it")
        return
    if mode & 0o077:
        text = f"{path} holds credentials and can be read by others (mode {mode:o}): chmod 600 it"
        yield Finding(CONFIGURATION, "auth.json", "warning", text)
    table = cast(dict[str, Any], content) if isinstance(content, dict) else {}
    if table.get("tokens"):
        text = f"{path} holds a ChatGPT login, which is not supported: set OPENAI_API_KEY to an API key"
        yield Finding(CONFIGURATION, "auth.json", "info" if table.get("OPENAI_API_KEY") else "warning", text)


MODEL = "Model"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 45.0


def examine_model(config: Config, *, online: bool) -> Iterator[Finding]:
    if config.model != ANY_MODEL:
        yield Finding(MODEL, "model", "ok", config.model)
    env: Mapping[str, str] = {**os.environ, "OPENAI_BASE_URL": config.openai_base_url} if config.openai_base_url else os.environ
    try:
        provider = find_provider(config.model_provider, config.provider_tables, env)
        url = None if provider.id in UNADDRESSED else parse_url(provider.base_url)
    except (ConfigError, ValueError) as error:
        yield Finding(MODEL, "provider", "broken", str(error))
        return
    if provider.id == REPLAY:
        yield Finding(MODEL, "provider", "ok", f"replay: plays the recording {config.replay}, no key needed")
        return
    if url is None:
        yield Finding(MODEL, "provider", "ok", f"scripted: plays {config.scripted_model or 'its built-in script'}, no key needed")
        return
    yield Finding(MODEL, "provider", "ok", f"{provider.name} at {url}, {provider.wire_api} wire")
    usable = True
    for finding in (_key(config, provider), _connection(url)):
        usable = usable and finding.level != "broken"
        yield finding
    if online and usable and config.model != ANY_MODEL:
        yield _answer(config, env)
    elif not online:
        yield Finding(MODEL, "answer", "info", "not asked; `understudy doctor --online` asks it for one word, with the key")


def _key(config: Config, provider: Provider) -> Finding:
    try:
        credentials = Credentials(os.environ, config.home)
        key = credentials.key_for(provider)
    except ModelError as error:
        return Finding(MODEL, "key", "broken", str(error))
    return Finding(MODEL, "key", "ok", f"present, from {credentials.source_of(provider)}" if key is not None else "none needed")


def _connection(url: Url) -> Finding:
    try:
        proxy = wait_for(lambda: _connect(url))
    except HttpFailure as failure:
        hint = "check the network, base_url, proxy variables (HTTPS_PROXY, NO_PROXY) and SSL_CERT_FILE; a local service must run"
        return Finding(MODEL, "connection", "broken", str(failure), (hint,))
    through = f" through the proxy {proxy.scheme}://{proxy.authority}" if proxy else ""
    return Finding(MODEL, "connection", "ok", f"reached{through}")


async def _connect(url: Url) -> Url | None:
    """Connect as for a request, without sending it. Raises `HttpFailure`."""
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
        return Finding(MODEL, "answer", "broken", first, tuple(rest) or ("check the key, the model's name and base_url",))
    except TimeoutError:
        return Finding(MODEL, "answer", "broken", f"{config.model} has not answered within {ANSWER_SECONDS:.0f} seconds")
    return Finding(MODEL, "answer", "ok", f"{config.model} answers")


async def _ask(config: Config, env: Mapping[str, str]) -> None:
    """Ask for one word, exactly as a turn would. Raises `AgentError` or `TimeoutError`."""
    setups = Setups(env)
    try:
        model = setups.prepare(config, lambda: Path(os.devnull)).model
        question = Message("user", (InputText("Answer with the single word OK."),))
        prompt = Prompt("You answer with a single word.", (question,), (), str(uuid.uuid4()))
        async with asyncio.timeout(ANSWER_SECONDS), model.stream(prompt) as answer:
            async for _ in answer:
                return
    finally:
        await setups.aclose()
