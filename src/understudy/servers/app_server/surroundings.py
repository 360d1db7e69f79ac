"""Methods about the surroundings of threads: models, configuration, the account, profiles and skills.

A call that may wait for a person or a lock runs in a thread of its own, which does not keep an ending process alive.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from understudy.config.file import read_config_file
from understudy.config.model import Config
from understudy.config.providers import BY_ID
from understudy.errors import ConfigError, MissingKey
from understudy.models.auth import Credentials
from understudy.models.families import EFFORTS, family_of
from understudy.models.prices import models_of
from understudy.models.provider_keys import ProviderKeys, key_problem
from understudy.models.providers import Provider, find_provider
from understudy.policy.secrets import without_secrets
from understudy.protocol.records import Overrides
from understudy.servers.app_server import params
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.settings import PROFILES
from understudy.servers.app_server.wire import Json
from understudy.servers.failures import InvalidParams, InvalidRequest
from understudy.servers.stdio.line_door import LineAnswer

T = TypeVar("T")


async def in_thread(act: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    returned: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            found = act()
        except Exception as error:
            tell(lambda error=error: returned.set_exception(error))
        else:
            tell(lambda: returned.set_result(found))

    def tell(settle: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if returned.done() else settle())

    threading.Thread(target=run, daemon=True).start()
    return await returned


_USUAL_EFFORTS = ("low", "medium", "high")
_DESCRIBED = {
    "none": "No reasoning",
    "minimal": "As little reasoning as possible",
    "low": "Quick answers with little reasoning",
    "medium": "A balance of speed and depth",
    "high": "More reasoning for harder problems",
    "xhigh": "Much reasoning, for the hardest problems",
    "max": "As much reasoning as the model can do",
    "ultra": "As much reasoning as the model can do",
}


# -- models


async def list_models(client: AppPeer, given: Raw | None) -> Json:
    """The configured model, then the known models of its provider. The provider is not asked, because an editor waits for this."""
    asked = params.read(params.ListPage, given)
    config = client.engine.configure(Overrides())
    row = BY_ID.get(config.model_provider)
    known = (row.default_model, *models_of(row.vendors)) if row is not None else ()
    names = list(dict.fromkeys((config.model, *known)))
    begin = _begin(asked.cursor)
    end = len(names) if not asked.limit else begin + max(asked.limit, 0)
    shown = [_model(name, is_default=name == config.model) for name in names[begin:end]]
    return {"data": shown, "nextCursor": str(end) if end < len(names) else None}


def _begin(cursor: str | None) -> int:
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 12):
        raise InvalidParams("Invalid params: `cursor` is to be the `nextCursor` of an earlier answer")
    return int(cursor or 0)


def _model(name: str, *, is_default: bool) -> Json:
    family = family_of(name)
    efforts = [level for level in EFFORTS if level in (family.efforts or _USUAL_EFFORTS)]
    default = family.effort("medium") if family.efforts else "medium"
    return {
        "id": name,
        "model": name,
        "upgrade": None,
        "upgradeInfo": None,
        "availabilityNux": None,
        "displayName": name,
        "description": "",
        "modelSpecialty": None,
        "hidden": False,
        "supportedReasoningEfforts": [{"reasoningEffort": level, "description": _DESCRIBED[level]} for level in efforts],
        "defaultReasoningEffort": default,
        "inputModalities": ["text", "image"] if family.eyes else ["text"],
        "supportsPersonality": False,
        "multiAgentVersion": None,
        "additionalSpeedTiers": [],
        "serviceTiers": [],
        "defaultServiceTier": None,
        "availableAccessPrograms": None,
        "isDefault": is_default,
    }


# -- configuration


async def read_config(client: AppPeer, given: Raw | None) -> Json:
    """The content of the file and the resulting settings; never a secret."""
    asked = params.read(params.ReadConfig, given)
    config = client.engine.configure(Overrides(cwd=asked.cwd))
    file = read_config_file(config.home)
    written = without_secrets(file.tree)
    shown: Json = {
        "profiles": {},
        "mcp_servers": {},
        **written,
        "model": config.model,
        "model_provider": config.model_provider,
        "model_providers": without_secrets({name: dict(table) for name, table in config.provider_tables.items()}),
        "model_reasoning_effort": config.model_reasoning_effort,
        "model_reasoning_summary": config.model_reasoning_summary,
        "approval_policy": config.approval_policy,
        "sandbox_mode": config.sandbox.mode,
    }
    answer: Json = {"config": _plain(shown), "origins": {}}
    if asked.include_layers:
        name: Json = {"type": "user", "file": str(config.home / "config.toml"), "profile": None}
        answer["layers"] = [{"name": name, "version": "", "config": _plain(written), "disabledReason": None}]
    return answer


def _plain(tree: Json) -> Json:
    """The tree as JSON: TOML also has dates."""
    return cast(Json, msgspec.to_builtins(tree, enc_hook=str))


async def list_profiles(client: AppPeer, given: Raw | None) -> Json:
    params.read(params.ListPage, given)
    return {"data": [{"id": name, "description": None, "allowed": True} for name in PROFILES], "nextCursor": None}


async def list_skills(client: AppPeer, given: Raw | None) -> Json:
    """The skills that the model is told of in each folder."""
    asked = params.read(params.ListSkills, given)
    return {"data": [_skills_in(client, cwd) for cwd in asked.cwds or [os.getcwd()]]}


def _skills_in(client: AppPeer, cwd: str) -> Json:
    from understudy.config.sandbox import places_of
    from understudy.engine.setup.skill_interface import shown_interface
    from understudy.engine.setup.skills import Skills, find_skills, survey_skills

    try:
        config = client.engine.configure(Overrides(cwd=cwd))
        places = places_of(config)
        both = find_skills(config, places) if config.skills else Skills()
        found = sorted({*both.listed, *both.named}, key=lambda skill: (skill.scope, skill.name))  # includes those for people
        broken = [each for each, skill in survey_skills(config, places) if skill is None] if config.skills else []
    except ConfigError as error:
        return {"cwd": cwd, "skills": [], "errors": [{"path": cwd, "message": str(error)}]}
    skills = [
        {
            "name": skill.name,
            "description": skill.description,
            "path": skill.path,
            "scope": skill.scope,
            "enabled": True,
            "pluginId": None,
            **({"shortDescription": skill.short} if skill.short else {}),
            **({"interface": shown_interface(dict(skill.interface))} if skill.interface else {}),
        }
        for skill in found
    ]
    return {"cwd": cwd, "skills": skills, "errors": [{"path": each.path, "message": each.why} for each in broken]}


async def list_hooks(client: AppPeer, given: Raw | None) -> Json:
    """The hooks of each folder and the user's own, and whether they count."""
    asked = params.read(params.ListSkills, given)
    return {"data": [await _hooks_in(client, cwd) for cwd in asked.cwds or [os.getcwd()]]}


async def _hooks_in(client: AppPeer, cwd: str) -> Json:
    from understudy.engine.hooks.loading import load_hooks, untrusted_folders
    from understudy.engine.hooks.rows import row_of

    try:
        config = client.engine.configure(Overrides(cwd=cwd))
        untrusted = untrusted_folders(config.projects)
        # In a thread, because the scripts of all hooks are read.
        loaded = await asyncio.to_thread(load_hooks, config.cwd, config.home, os.environ, config.hooks, untrusted)
    except ConfigError as error:
        return {"cwd": cwd, "hooks": [], "warnings": [], "errors": [{"path": cwd, "message": str(error)}]}
    rows = [row_of(each, order) for order, each in enumerate(loaded.judged)]
    return {"cwd": cwd, "hooks": rows, "warnings": list(loaded.problems), "errors": []}


# -- the account


async def read_account(client: AppPeer, given: Raw | None) -> Json:
    params.read(params.Nothing, given)
    config, provider = _provider(client)
    account = {"type": "apiKey"} if await _has_key(config, provider) else None
    return {"account": account, "requiresOpenaiAuth": provider.requires_openai_auth, "workspaceRouting": None}


async def auth_status(client: AppPeer, given: Raw | None) -> Json:
    """Never reveals the token itself."""
    params.read(params.Nothing, given)
    config, provider = _provider(client)
    method = "apikey" if await _has_key(config, provider) else None
    return {"authMethod": method, "authToken": None, "requiresOpenaiAuth": provider.requires_openai_auth}


async def log_in(client: AppPeer, given: Raw | None) -> LineAnswer:
    asked = params.read(params.Login, given)
    if asked.type != "apiKey":
        raise InvalidRequest(f"login of type {asked.type[:100]!r} is not offered; log in with an API key: type `apiKey`")
    key = (asked.api_key or "").strip()
    if (problem := key_problem(key)) is not None:
        raise InvalidParams(f"Invalid params: `apiKey`: {problem}")
    config, provider = _provider(client)
    try:
        keys = ProviderKeys(config.state_dir)
        await in_thread(partial(keys.keep, provider.id, key, config.cli_auth_credentials_store))
    except OSError as error:
        raise InvalidRequest(f"the key cannot be kept in {config.state_dir}: {error.strerror}") from None

    def then() -> None:
        done: Json = {"loginId": None, "success": True, "error": None, "onboardingEntrypoint": None}
        client.notify("account/login/completed", done)
        client.notify("account/updated", {"authMode": "apikey", "planType": None})

    return LineAnswer({"type": "apiKey"}, then)


async def log_out(client: AppPeer, given: Raw | None) -> LineAnswer:
    """Forget what `account/login/start` has kept; a key in the environment stays."""
    params.read(params.Nothing, given)
    config, provider = _provider(client)
    try:
        await in_thread(partial(ProviderKeys(config.state_dir).forget, provider.id))
    except OSError as error:
        raise InvalidRequest(f"the key in {config.state_dir} cannot be forgotten: {error.strerror}") from None
    mode = "apikey" if await _has_key(config, provider) else None
    return LineAnswer({}, lambda: client.notify("account/updated", {"authMode": mode, "planType": None}))


def _provider(client: AppPeer) -> tuple[Config, Provider]:
    config = client.engine.configure(Overrides())
    env: dict[str, Any] = dict(os.environ)
    if config.openai_base_url:
        env["OPENAI_BASE_URL"] = config.openai_base_url
    return config, find_provider(config.model_provider, config.provider_tables, env)


async def _has_key(config: Config, provider: Provider) -> bool:
    if not provider.requires_openai_auth:
        return provider.id in ProviderKeys(config.state_dir).stored().providers()
    try:
        return await Credentials(os.environ, config.home).key_soon(provider) is not None
    except MissingKey:
        return False


async def list_modes(client: AppPeer, given: Raw | None) -> Json:
    plan = {"name": "Plan", "mode": "plan", "model": None, "reasoning_effort": "medium"}
    return {"data": [plan, {"name": "Default", "mode": "default", "model": None, "reasoning_effort": None}]}
