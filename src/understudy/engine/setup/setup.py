"""Turns a configuration into what one turn needs: the model, its instructions and tools, and how it is asked."""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.home import is_there
from understudy.config.load import CLAUDE_DOC_NAMES, DOC_NAMES
from understudy.config.model import Config
from understudy.config.project import is_marked_untrusted, project_folders, skill_folders
from understudy.config.providers import BY_ID
from understudy.config.sandbox import places_of
from understudy.engine.compaction.limits import ContextLimits
from understudy.engine.setup.turn_setup import Doc, TurnSetup
from understudy.models.auth import Credentials
from understudy.models.families import Family, family_of
from understudy.models.http_model import model_asked, open_model
from understudy.models.model import ModelSettings, ToolSpec
from understudy.models.providers import UNADDRESSED, Provider, find_provider, is_header
from understudy.net import HttpClient
from understudy.places.places import Places
from understudy.places.reading import read_or_tell
from understudy.protocol.items import InputText, Message, Usage
from understudy.protocol.records import Pins, UserMessage
from understudy.tools.registry import OfferConditions, find_tool, offered

if TYPE_CHECKING:
    from understudy.engine.compaction.provider_window import ProviderWindow
    from understudy.engine.services.notifying import Notifier
    from understudy.engine.services.question_news import QuestionTeller
    from understudy.models.prices import Price
    from understudy.tools.host import ToolSettings


TRAITS = ("commentary", "parallel")  # traits of a family of models; see `models/families.py`


def instructions_for(features: Iterable[str]) -> str:
    """The instructions of a model that nobody gave other instructions."""
    return _with_parts(frozenset(features) & conditions())


@cache
def conditions() -> frozenset[str]:
    """The features that the text mentions."""
    lines = _text().splitlines()
    return frozenset(line.removeprefix("{{if ").removesuffix("}}") for line in lines if line.startswith("{{if "))


@lru_cache(maxsize=16)
def _with_parts(features: frozenset[str]) -> str:
    counts = True
    kept: list[str] = []
    for line in _text().splitlines():
        if line.startswith("{{if "):
            counts = line.removeprefix("{{if ").removesuffix("}}") in features
        elif line == "{{else}}":
            counts = not counts
        elif line == "{{end}}":
            counts = True
        elif counts:
            kept.append(line)
    return "\n".join(kept)


@cache
def _text() -> str:
    return Path(__file__).with_name("instructions.md").read_text(encoding="utf-8").strip()


logger = logging.getLogger(__name__)

KEPT = 32  # configurations; most processes see one or two
_AFTER_GLOBAL = "\n\n--- project-doc ---\n\n"
_GLOBAL_MAX_BYTES = 1024 * 1024


class Setups:
    """What turns need, made once per configuration. Conversations with the same configuration share it; all conversations share the
    connections to models.

    Each conversation has its own folder for temporary files, and reads the AGENTS.md files as they are now.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._http: HttpClient | None = None
        self._notifier: Notifier | None = None
        self._question_teller: QuestionTeller | None = None
        self._windows: dict[tuple[str, str, str], ProviderWindow] = {}  # by provider, address and model
        # by identity; the value keeps the configuration alive
        self._known: OrderedDict[int, tuple[Config, TurnSetup]] = OrderedDict()

    def prepare(self, config: Config, private_tmp: Callable[[], Path], pins: Pins | None = None) -> TurnSetup:
        """`private_tmp` is called when a tool first needs it. `pins`: the conversation's places, as far as they are known.

        Raises `ConfigError`. Nothing is sent and no key is looked up yet.
        """
        places = places_of(config, pins)
        preamble, imported = _preamble(config, places)
        known = self._known.get(id(config))
        if known is None or config.model_provider in UNADDRESSED:  # a script is read anew and played from its beginning
            self._http = self._http or HttpClient(self._env)
            known = self._known[id(config)] = config, self._prepare(config, preamble, self._http)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        setup = known[1]
        if preamble != setup.preamble:
            setup = msgspec.structs.replace(setup, preamble=preamble)
            self._known[id(config)] = config, setup
        settings = _settings_in(private_tmp, places, setup.settings)
        if imported:
            from understudy.engine.setup.tool_settings import keeping

            settings = cache(partial(keeping, settings, imported))
        given = partial(_given, config, places) if config.skills else setup.given
        return msgspec.structs.replace(setup, settings=settings, pins=places.pins(), given=given)

    def _prepare(self, config: Config, preamble: tuple[Message, ...], http: HttpClient) -> TurnSetup:
        setup = _prepare(config, preamble, http, self._env)
        if setup.limits.configured is None and (row := BY_ID.get(config.model_provider)) is not None and row.window_at:
            setup = msgspec.structs.replace(setup, limits=self._with_provider(setup.limits, config, http))
        questions = config.questions
        if not (config.notify or questions.command or questions.url):
            return setup
        from understudy.engine.services.notifying import Notifier, NotifyProgram  # few users have such a program

        notifier = self._notifier = self._notifier or Notifier(self._env)
        provider, credentials = _provider_of(config, self._env), Credentials(self._env, config.home)
        known = partial(credentials.known_secrets, provider)
        if config.notify:
            notify = partial(notifier.tell, NotifyProgram(config.notify, config.home, known))
            setup = msgspec.structs.replace(setup, notify=notify)
        if questions.command or questions.url:
            from understudy.engine.services.question_news import QuestionTeller

            teller = self._question_teller = self._question_teller or QuestionTeller(notifier, http)
            on_question = partial(teller.tell, questions, config.home, config.state_dir, known)
            setup = msgspec.structs.replace(setup, on_question=on_question)
        return setup

    def _with_provider(self, limits: ContextLimits, config: Config, http: HttpClient) -> ContextLimits:
        """Adds the provider's answer about the window."""
        from understudy.engine.compaction.provider_window import ProviderWindow  # most models are in the table

        provider, credentials = _provider_of(config, self._env), Credentials(self._env, config.home)

        async def ask(seconds: float) -> int | None:
            from understudy.models.catalogue import ask_window

            return await ask_window(provider, config.model, credentials, http, seconds)

        place = provider.id, provider.base_url, config.model
        if place not in self._windows:
            self._windows[place] = ProviderWindow(ask)
        return msgspec.structs.replace(limits, provider=self._windows[place])

    def finish_notifying(self) -> None:
        """The process ends: wait, for a limited time, until pending notification programs have started."""
        if self._notifier is not None:
            self._notifier.close()

    async def aclose(self) -> None:
        """Close every connection."""
        for window in self._windows.values():
            await window.aclose()
        if self._question_teller is not None:
            await self._question_teller.aclose()
        if self._http is not None:
            await self._http.aclose()


def _prepare(config: Config, preamble: tuple[Message, ...], http: HttpClient, env: Mapping[str, str]) -> TurnSetup:
    provider = _provider_of(config, env)
    settings = _model_settings(config, env)
    model = open_model(provider, settings, Credentials(env, config.home), http)
    family = family_of(model_asked(settings))
    chosen = config.approval_policy, config.sandbox.mode, config.include_plan_tool, config.command_seconds
    switched_off = () if config.view_image else ("view_image",)
    tools = offered(OfferConditions(*chosen, eyes=family.eyes, without=(*family.without, *switched_off)))
    return TurnSetup(
        model=model,
        instructions=_instructions(config, family, tools),
        preamble=preamble,
        find_tool=(lambda name: None if name in switched_off else find_tool(name)) if switched_off else find_tool,
        offered=tools,
        settings=_settings_later(config, provider, env),
        stream_retries=provider.stream_max_retries,
        show_raw_reasoning=config.show_raw_agent_reasoning,
        config=config,
        cost_of=_cost_later(config),
        limits=_context_limits(config, family),
    )


def _provider_of(config: Config, env: Mapping[str, str]) -> Provider:
    addresses = {**env, "OPENAI_BASE_URL": config.openai_base_url} if config.openai_base_url else env
    return find_provider(config.model_provider, config.provider_tables, addresses)


def _instructions(config: Config, family: Family, tools: tuple[ToolSpec, ...]) -> str:
    """The user's instructions, or ours, fitted to the model and its tools."""
    if config.base_instructions is not None:
        return config.base_instructions
    traits = {"commentary": family.commentary, "parallel": family.parallel, "mcp_servers": bool(config.mcp_servers)}
    return instructions_for([*(tool.name for tool in tools), *(name for name, holds in traits.items() if holds)])


def _cost_later(config: Config) -> Callable[[Usage], float | None]:
    """The table of prices is read when there is something to count."""

    @cache
    def price() -> "Price | None":
        from understudy.models.prices import own_prices, price_of

        return price_of(config.model, own_prices(config.prices))

    def cost_of(usage: Usage) -> float | None:
        found = price()
        return None if found is None else found.cost(usage)

    return cost_of


def _context_limits(config: Config, family: Family) -> ContextLimits:
    window = config.model_context_window or family.window
    return ContextLimits(window, config.model_auto_compact_token_limit, config.compact_prompt or "")


def _model_settings(config: Config, env: Mapping[str, str]) -> ModelSettings:
    return ModelSettings(
        config.model,
        reasoning_effort=config.model_reasoning_effort,
        effort_is_chosen=config.effort_is_chosen,
        reasoning_summary=config.model_reasoning_summary,
        supports_reasoning_summaries=config.model_supports_reasoning_summaries,
        verbosity=config.model_verbosity,
        store=not config.disable_response_storage,
        originator=_originator(env),
        show_raw=config.show_raw_agent_reasoning,
        script=config.scripted_model,
        record=config.record,
        replay=config.replay,
        places=_places_of(config, env) if config.record or config.replay else {},
        roots=places_of(config).roots if config.record else (),
    )


def _originator(env: Mapping[str, str]) -> str:
    """The name under which we ask the provider: the program that started us may set its own, if it is valid in a header."""
    named = env.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "")
    return named if named and named == named.strip() and is_header("originator", named) else "understudy"


def _places_of(config: Config, env: Mapping[str, str]) -> dict[str, str]:
    named = {"cwd": str(config.cwd), "CODEX_HOME": str(config.home), "HOME": env.get("HOME", "")}
    return {**named, **{f"real {name}": os.path.realpath(path) for name, path in named.items() if path}}


def _settings_later(config: Config, provider: Provider, env: Mapping[str, str]) -> "Callable[[], ToolSettings]":
    """Policy and sandbox are only needed once a tool is called. The user's rules are read at once, because they may be wrong."""

    @cache
    def settings() -> "ToolSettings":
        from understudy.engine.setup.tool_settings import tool_settings

        return tool_settings(config, provider, env)

    if config.policy_rules:
        settings()
    return settings


def _settings_in(
    private_tmp: Callable[[], Path], places: Places, shared: "Callable[[], ToolSettings]"
) -> "Callable[[], ToolSettings]":
    """The settings of one conversation."""

    made: list[ToolSettings] = []

    def settings() -> "ToolSettings":
        if not made:
            from understudy.engine.setup.tool_settings import of_conversation

            made.append(of_conversation(shared(), places, private_tmp()))
        return made[0]

    return settings


# -- what precedes the first message


def _preamble(config: Config, places: Places) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """What precedes the first message of every request, and the files in it that would not be protected by their names."""
    messages = [Message("user", (InputText(environment_context(config)),))]
    if config.developer_instructions:
        messages.insert(0, Message("developer", (InputText(config.developer_instructions),)))
    if config.plans:
        from understudy.engine.planning.words import PLAN_MODE  # few turns only plan

        messages.append(PLAN_MODE)
    folders = project_folders(str(config.cwd))
    if config.skills and skill_folders((config.home, config.agents_home, config.claude_home), folders):
        from understudy.engine.setup.skills import (
            find_skills,
            skills_message,  # few users have any
        )

        if (skills := find_skills(config, places)).listed:
            messages.append(Message("user", (InputText(skills_message(skills)),)))
    own, docs = own_docs(config, places), project_docs(config, places, folders)
    told = _joined(own, docs)
    if told is not None:
        messages.append(Message("user", (InputText(user_instructions_message(told)),)))
    if not any(doc.imported or "/rules/" in doc.path for doc in (*own, *docs)):
        return tuple(messages), ()
    from understudy.engine.setup.claude_docs import kept_for  # few users have any

    return tuple(messages), kept_for(own, docs, places.roots, config.sandbox.opened)


def _given(config: Config, places: Places, messages: Iterable[UserMessage]) -> tuple[Message, ...]:
    """The skills that people name in these messages."""
    naming = [each.message for each in messages if "$" in each.message.text()]
    if not naming:
        return ()
    from understudy.engine.setup.skills import skills_named  # few users have any

    return skills_named(naming, config, places)


def user_instructions(config: Config, places: Places | None = None, folders: Sequence[str] = ()) -> str | None:
    """The user's own instructions, then the project's from its root down to cwd; None if there are none.

    `folders`: the project's, if already known.
    """
    places = places or places_of(config)
    return _joined(own_docs(config, places), project_docs(config, places, folders))


def _joined(own: Sequence[Doc], docs: Sequence[Doc]) -> str | None:
    if not (own or docs):  # most users and projects have none
        return None
    parts = ("\n\n".join(doc.text for doc in each) for each in (own, docs))
    return _AFTER_GLOBAL.join(part for part in parts if part) or None


def user_instructions_message(text: str) -> str:
    return f"<user_instructions>\n\n{text}\n\n</user_instructions>"


def environment_context(config: Config) -> str:
    network = "enabled" if config.sandbox.network == "on" else "restricted"
    cwd = str(config.cwd).replace("\r", "\\r").replace("\n", "\\n")  # a folder's name must not add lines
    mode = "read-only" if config.plans else config.sandbox.mode
    return (
        f"<environment_context>\n\nCurrent working directory: {cwd}\nApproval policy: {config.approval_policy}\n"
        f"Sandbox policy: {mode}\nNetwork access: {network}\n\n\n</environment_context>"
    )


def own_docs(config: Config, places: Places) -> list[Doc]:
    """The user's own: the first file that is not empty, and what Claude Code reads besides."""

    def read(path: str) -> str | None:
        data = read_or_tell(path, _GLOBAL_MAX_BYTES, places.masks)
        return None if data is None else data.decode(errors="replace").strip()

    has_claude = is_there(config.claude_home)
    there = [path for path in own_doc_paths(config, has_claude) if is_there(path)]
    first = next((Doc(path, text) for path in there if (text := read(path))), None)
    found = [] if first is None else [first]
    if not has_claude:
        return found
    from understudy.engine.setup.claude_docs import of_rules, with_imports

    return with_imports(found, config.claude_home, read) + of_rules(f"{config.claude_home}/rules", config.claude_home, read)


def own_doc_paths(config: Config, has_claude: bool = True) -> list[str]:
    return [f"{config.home}/{name}" for name in DOC_NAMES] + ([f"{config.claude_home}/{CLAUDE_DOC_NAMES[0]}"] * has_claude)


def project_docs(config: Config, places: Places, folders: Sequence[str] = ()) -> list[Doc]:
    """For each folder from the git root to cwd, the first readable file by name, with its text, and what Claude Code reads besides,
    within a shared limit of bytes. Without a git root only cwd counts. Folders that the user marks as untrusted are skipped.
    """
    cwd = places.pinned[0].path
    if not folders or folders[0] != cwd:  # it may have been reached by a link
        folders = project_folders(cwd)
    there = [docs for folder in reversed(folders) if (docs := _docs_in(folder, config)) is not None]
    if not there:
        return []  # most projects have none: then no places or rights need to be prepared
    if (complaint := places.complaint()) is not None:
        logger.warning("no AGENTS.md of the project was read: %s", complaint)
        return []
    root, left = folders[-1], config.project_doc_max_bytes

    def read(path: str) -> str | None:
        nonlocal left
        data = read_or_tell(path, max(left, 0) + 1, places.masks, within=root, act=places.act)
        if data is None or not data.strip():
            return None if data is None else ""
        if len(data) > left and config.project_doc_max_bytes:
            from understudy.engine.setup.disk import tell_cut  # few projects have so many words

            tell_cut(path, config.project_doc_max_bytes)
        text = data[: max(left, 0)].decode(errors="replace")
        left -= len(data)
        return text

    found: list[Doc] = []
    for folder, paths, of_claude in there:
        first = next((Doc(path, text) for path in paths if (text := read(path)) is not None), None)
        mine = [] if first is None or not first.text else [first]
        if of_claude:
            from understudy.engine.setup.claude_docs import with_others

            mine = with_others(folder, mine, root, read)
        before = {doc.path for doc in found}
        found += [doc for doc in mine if doc.path not in before]
    return found


def _docs_in(folder: str, config: Config) -> tuple[str, list[str], bool] | None:
    """The folder, its files in their order of precedence, and whether there may be more of Claude Code; None for most folders.

    Every conversation asks.
    """
    folder = folder.rstrip("/")
    has_claude = is_there(f"{folder}/.claude") and f"{folder}/.claude" != config.claude_home
    names = [name for name in config.project_doc_names if has_claude or name[:8] != ".claude/"]
    found = [path for name in names if is_there(path := f"{folder}/{name}")]
    of_claude = has_claude and is_there(f"{folder}/.claude/rules")
    if not found and not of_claude:
        return None
    if config.projects and is_marked_untrusted(f"{folder}/{DOC_NAMES[0]}", config.projects):
        return None
    of_claude = of_claude or is_there(f"{folder}/CLAUDE.local.md") or any(path.endswith("/CLAUDE.md") for path in found)
    return folder, found, of_claude
