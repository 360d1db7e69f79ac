"""Makes a `Config` from the file, a profile, `-c` flags and a call's arguments.

Precedence, strongest first: a typed argument, the `config` argument, `-c`, the profile, the user's file, the file of a trusted
project, the default.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Any, TypeVar, cast, get_args

import msgspec

from understudy.config.file import ConfigFile, absent_file, read_config_file
from understudy.config.home import expand, is_there, state_dir
from understudy.config.mcp_servers import read_mcp_servers
from understudy.config.model import (
    REPORT_KINDS,
    Config,
    CredentialsStore,
    EventMethods,
    HistoryPersistence,
    Inherit,
    ReportKind,
    ShellEnvironment,
    Wire,
    read_questions,
)
from understudy.config.overrides import Assignment, Profile, apply, assignments, choose_profile, merge
from understudy.config.project import (
    ProjectLayer,
    agents_home,
    claude_home,
    project_files,
    read_project_layer,
    with_project_servers,
)
from understudy.config.providers import BUILT_IN, BY_ID, DEFAULT_OF_WIRE, WireApi, built_in_id
from understudy.config.sandbox import read_sandbox
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.config.slips import find_slips
from understudy.config.tables import check_history, check_prices, check_projects, check_providers, read_budget
from understudy.errors import ConfigError
from understudy.protocol.choices import APPROVAL_POLICIES, ApprovalPolicy
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.records import Overrides

T = TypeVar("T")

DOC_NAMES = ("AGENTS.override.md", "AGENTS.md")
CLAUDE_DOC_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md")
PROJECT_DOC_MAX_BYTES = 32 * 1024
MOST_DOC_BYTES = 16 * 1024 * 1024  # whatever is configured, because a repository's files are kept in memory
COMMAND_SECONDS = 60  # unless the model limits a command itself
TASK_SECONDS = 7 * 24 * 3600.0
MCP_WAIT_SECONDS = 1.5  # how long a first request waits for other servers
MOST_COMMAND_SECONDS = 7 * 24 * 3600
BY_ARGUMENT = "the `config` argument"
COMMAND_SESSIONS, MOST_SESSIONS = 16, 256
COMMAND_IDLE_SECONDS = 1800
MOST_INSTRUCTIONS = 16 << 20  # bytes; no model reads so many
KEPT = 32  # configurations that are remembered; most processes use one or two

_encode = msgspec.json.Encoder().encode

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
_SUMMARIES = ("auto", "concise", "detailed", "none")
_VERBOSITIES = ("low", "medium", "high")


def load_config(
    home: Path,
    overrides: Overrides,
    *,
    cli: Sequence[tuple[str, Any]] = (),
    defaults: Tree | None = None,
    reads_user_file: bool = True,
    given_by: str = BY_ARGUMENT,
    server_cwd: Path,
    env: Mapping[str, str],
) -> Config:
    """The configuration with which a conversation starts or continues. Raises `ConfigError` that names key, place and expected
    value.

    `defaults` apply if nothing else is set. `given_by`: the user's name for the source of `overrides.config`.
    """
    file = read_config_file(home) if reads_user_file else absent_file(home)
    if defaults:
        file = msgspec.structs.replace(file, tree=merge(defaults, file.tree))
    settings = [*assignments(cli, "`-c`"), *assignments((overrides.config or {}).items(), given_by)]
    laid_over = apply(file.tree, settings)
    profile = choose_profile(overrides, laid_over, file)
    warnings, idle = _judge_keys(settings, profile, file)
    cwd = _find_cwd(overrides.cwd, server_cwd, env)
    project: ProjectLayer | None = None
    try:
        project = read_project_layer(cwd, home, check_projects(TreeReader(laid_over)))
        tree = apply(merge(merge(project.tree, file.tree), profile.tree), settings) if project.tree or profile.name else laid_over
        tree = with_project_servers(tree, project.servers)
        config = build_config(home, TreeReader(tree), overrides, cwd, env, (*warnings, *project.warnings))
        if reads_user_file and is_there(claudes := f"{config.claude_home}/settings.json"):
            config = _with_permissions(config, claudes)
        if "hooks" in file.tree:
            config = msgspec.structs.replace(config, hooks=TreeReader(file.tree).table("hooks") or {})
        return config if not idle else msgspec.structs.replace(config, notices=(*config.notices, *idle))
    except Mismatch as slip:
        origin = _find_origin(slip.key, settings, profile, file, project)
        text = f"{slip.complaint}\nin `{slip.key}`\nThat value is set by {origin}; `{slip.key}` should be {slip.wanted}."
        raise ConfigError(text) from None


def _with_permissions(config: Config, settings: str) -> Config:
    from understudy.config.claude_permissions import read_permissions  # few users have any

    found = read_permissions(settings)
    rules, notices = (*config.policy_rules, *found.rules), (*config.notices, *found.notices)
    return msgspec.structs.replace(config, policy_rules=rules, notices=notices)


class Configs:
    """The configurations of one process. Each is reused until one of its sources changes."""

    def __init__(
        self,
        cli: Sequence[tuple[str, Any]],
        server_cwd: Path,
        env: Mapping[str, str],
        *,
        defaults: Tree | None = None,
        reads_user_file: bool = True,
        given_by: str = BY_ARGUMENT,
    ) -> None:
        self._cli = cli
        self._given_by = given_by
        self._defaults = defaults
        self._reads_user_file = reads_user_file
        self._server_cwd = server_cwd
        self._env = env
        self._known: OrderedDict[bytes, tuple[ConfigFile, _FolderStamp, Config]] = OrderedDict()

    def load(self, home: Path, overrides: Overrides) -> Config:
        """Raises `ConfigError`."""
        key = _encode((str(home), overrides))
        known = self._known.get(key)
        if known is not None:
            file, folder, config = known
            if read_config_file(home) is file and _folder_stamp(config.cwd) == folder and not project_files(config.cwd, home):
                return config
        file = read_config_file(home)
        config = load_config(
            home,
            overrides,
            cli=self._cli,
            defaults=self._defaults,
            reads_user_file=self._reads_user_file,
            given_by=self._given_by,
            server_cwd=self._server_cwd,
            env=self._env,
        )
        if known is not None and known[2] == config:
            config = known[2]  # the same object, so that what was prepared for it is found
        folder = _folder_stamp(config.cwd)
        if folder is not None and read_config_file(home) is file and not _reads_more(config, overrides):
            self._known[key] = file, folder, config
            self._known.move_to_end(key)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return config


_FolderStamp = tuple[int, int, int, int] | None


def _folder_stamp(cwd: Path) -> _FolderStamp:
    """Another folder with the same name, or another owner, may mean another sandbox."""
    try:
        found = os.stat(cwd)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_uid, found.st_mode


def _reads_more(config: Config, overrides: Overrides) -> bool:
    """Whether it also depends on other files."""
    return overrides.profile is not None or (config.base_instructions is not None and overrides.base_instructions is None)


def _find_origin(key: str, settings: Sequence[Assignment], profile: Profile, file: ConfigFile, project: ProjectLayer | None) -> str:
    for setting in reversed(settings):
        if setting.key == key or key.startswith(setting.key + ".") or setting.key.startswith(key + "."):
            return setting.origin
    if _holds(profile.tree, key):
        return profile.place(file.path)
    if project is not None and not _holds(file.tree, key):
        return next((path for path, tree in reversed(project.origins) if _holds(tree, key)), str(file.path))
    return str(file.path)


def _holds(tree: Tree, key: str) -> bool:
    try:
        return TreeReader(tree).value(key) is not None
    except Mismatch:
        return False


def _judge_keys(settings: Sequence[Assignment], profile: Profile, file: ConfigFile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Warnings about misspelt keys, and notices about keys of codex on which the user may rely and that have no effect here.

    Raises `ConfigError` for a misspelt key that guards something.
    """
    found = [(slip, str(file.path)) for slip in file.slips]
    found += [(slip, str(profile.file)) for slip in profile.slips]
    for setting in settings:
        found += [(slip, setting.origin) for slip in find_slips(apply({}, [setting]))]
    for slip, where in found:
        if slip.severe and (not slip.key.startswith("profiles.") or slip.key.startswith(f"profiles.{profile.name}.")):
            raise ConfigError(
                f"`{slip.key}` in {where} {slip.word}\nIt guards what the agent may do, so nothing runs until this is corrected."
            )
    said = [(slip.idle, f"`{slip.key}` in {where} {slip.word}") for slip, where in found if slip.told]
    return tuple(text for idle, text in said if not idle), tuple(text for idle, text in said if idle)


def _read_policy(read: TreeReader) -> tuple[ApprovalPolicy, tuple[str, ...]]:
    """Also returns what to say if it is codex's table of the kinds of questions that may be asked."""
    chosen = read.value("approval_policy")
    if not isinstance(chosen, dict) or "granular" not in chosen:
        return cast(ApprovalPolicy, read.choice("approval_policy", APPROVAL_POLICIES) or "on-request"), ()
    kinds = [read.flag(f"approval_policy.granular.{kind}") for kind in ("sandbox_approval", "rules")]
    policy: ApprovalPolicy = "on-request" if any(kinds) else "never"
    return policy, (
        f"`approval_policy` names kinds of questions (`granular`), of which nothing is known here: it is taken as `{policy}`",
    )


def build_config(
    home: Path, read: TreeReader, overrides: Overrides, cwd: Path, env: Mapping[str, str], warnings: tuple[str, ...]
) -> Config:
    """Raises `Mismatch` for the first wrong value, and `ConfigError` for values that do not fit together."""
    providers = check_providers(read)
    provider = _choose_provider(read, providers)
    model, notices = _choose_model(overrides, read, provider, providers, home)
    check_history(read)
    ours = read.table("understudy")
    if ours is not None and ("serve" in ours or "push" in ours):
        from understudy.config.serve import serve_settings  # few configurations need it

        serve_settings(home, read, env)  # also reports errors in these
    if ours is not None and ("store" in ours or "cluster" in ours):
        from understudy.config.store import check_store  # few configurations need it

        check_store(home, read)
    questions = read_questions(read)
    mcp_servers = read_mcp_servers(read)
    sandbox = read_sandbox(read, overrides.sandbox, home=home, cwd=cwd, env=env)
    effort = read.choice("model_reasoning_effort", _EFFORTS)
    policy, taken_as = _read_policy(read)
    return Config(
        home=home,
        state_dir=state_dir(home),
        cwd=cwd,
        model=model,
        model_provider=provider,
        provider_tables=providers,
        openai_base_url=read.text("openai_base_url"),
        cli_auth_credentials_store=cast(
            CredentialsStore, read.choice("cli_auth_credentials_store", get_args(CredentialsStore)) or "file"
        ),
        model_reasoning_effort=effort or "medium",
        effort_is_chosen=effort is not None,
        model_reasoning_summary=read.choice("model_reasoning_summary", _SUMMARIES) or "auto",
        model_supports_reasoning_summaries=read.flag("model_supports_reasoning_summaries"),
        model_verbosity=read.choice("model_verbosity", _VERBOSITIES),
        model_context_window=_read_tokens(read, "model_context_window"),
        model_auto_compact_token_limit=_read_tokens(read, "model_auto_compact_token_limit"),
        tool_output_token_limit=_read_tokens(read, "tool_output_token_limit"),
        view_image=_first(read.flag("tools.view_image"), True),
        approval_policy=overrides.approval_policy or policy,
        questions=questions,
        mcp_servers=mcp_servers,
        disabled_servers=read_mcp_servers(read, enabled=False),
        sandbox=sandbox,
        shell_environment=_read_shell_environment(read),
        disable_response_storage=_first(read.flag("disable_response_storage"), True),
        notify=read.texts("notify") or (),
        project_doc_max_bytes=min(_first(read.count("project_doc_max_bytes", "usize"), PROJECT_DOC_MAX_BYTES), MOST_DOC_BYTES),
        project_doc_names=_read_doc_names(read),
        show_raw_agent_reasoning=read.flag("show_raw_agent_reasoning") or False,
        hide_agent_reasoning=read.flag("hide_agent_reasoning") or False,
        history_persistence=cast(HistoryPersistence, read.choice("history.persistence", ("save-all", "none")) or "save-all"),
        base_instructions=_read_base_instructions(overrides, read, cwd, env, sandbox.mask),
        developer_instructions=_first(overrides.developer_instructions, read.text("developer_instructions")),
        compact_prompt=_first(overrides.compact_prompt, read.text("compact_prompt")),
        include_plan_tool=overrides.include_plan_tool or False,
        plans=overrides.mode == "plan",
        mcp_wait_seconds=_first(read.amount("understudy.mcp.wait_seconds"), MCP_WAIT_SECONDS),
        policy_rules=read.tables("policy.rules"),
        projects=check_projects(read),
        task_seconds=_first(read.amount("understudy.task_seconds"), TASK_SECONDS),
        wire=cast(Wire, read.choice("understudy.wire", ("seed", "modern")) or "seed"),
        events=cast(EventMethods, read.choice("understudy.events", ("auto", "both", "codex/event", "none")) or "auto"),
        report=cast(ReportKind, read.choice("understudy.report", REPORT_KINDS) or "brief"),
        thread_in_text=_first(read.flag("understudy.thread_in_text"), True),
        command_seconds=_read_command_seconds(read),
        command_sessions=_read_within(read, "understudy.commands.sessions", COMMAND_SESSIONS, MOST_SESSIONS, "commands"),
        command_idle_seconds=_read_within(
            read, "understudy.commands.idle_seconds", COMMAND_IDLE_SECONDS, MOST_COMMAND_SECONDS, "seconds"
        ),
        scripted_model=_read_path(read, "understudy.scripted_model", cwd, env),
        record=_read_path(read, "understudy.record", cwd, env),
        replay=_read_path(read, "understudy.replay", cwd, env),
        prices=check_prices(read),
        budget=read_budget(read, "understudy.budget"),
        call_budget=read_budget(read, "understudy.budget.call"),
        skills=_first(read.flag("understudy.skills"), True),
        claude_home=claude_home(env),
        agents_home=agents_home(env),
        hooks_may_allow=read.flag("understudy.hooks.may_allow") or False,
        warnings=warnings,
        assumes_model=bool(notices),
        notices=(*notices, *taken_as),
    )


def _read_doc_names(read: TreeReader) -> tuple[str, ...]:
    """Claude's names come last, because people with files for both programs want the other ones here."""
    named = read.texts("project_doc_fallback_filenames") or ()
    for name in named:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            wanted = "names of files in a folder of the project, such as `GUIDE.md`"
            raise read.mismatch("project_doc_fallback_filenames", f"invalid value: `{name}`", wanted)
    return tuple(dict.fromkeys((*DOC_NAMES, *filter(None, named), *CLAUDE_DOC_NAMES)))


def _read_path(read: TreeReader, key: str, cwd: Path, env: Mapping[str, str]) -> Path | None:
    named = read.text(key)
    return expand(named, base=cwd, env=env) if named else None


def _read_command_seconds(read: TreeReader) -> int:
    return _read_within(read, "understudy.commands.timeout_seconds", COMMAND_SECONDS, MOST_COMMAND_SECONDS, "seconds")


def _read_within(read: TreeReader, key: str, default: int, most: int, unit: str) -> int:
    number = _first(read.count(key), default)
    if not 1 <= number <= most:
        raise read.mismatch(key, f"invalid value: integer `{number}`", f"a whole number of {unit} from 1 to {most}")
    return number


def _read_tokens(read: TreeReader, key: str) -> int | None:
    tokens = read.count(key)
    if tokens == 0:
        raise read.mismatch(key, "invalid value: integer `0`", "a number of tokens, 1 or more")
    return tokens


def _first(value: T | None, otherwise: T) -> T:
    """`value`, unless it is None; an empty text or a zero counts as a choice."""
    return otherwise if value is None else value


def _find_cwd(named: str | None, server_cwd: Path, env: Mapping[str, str]) -> Path:
    cwd = expand(named, base=server_cwd, env=env) if named else server_cwd
    if not is_unicode(str(cwd)):
        raise ConfigError(
            f"the folder `{visible(str(cwd))}` cannot be used: its name is not valid UTF-8, so that no log could hold it. "
            "Rename that folder or name another one."
        )
    try:
        if ".." in cwd.parts:
            cwd = cwd.resolve(strict=True)
        is_folder = S_ISDIR(os.stat(cwd).st_mode)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"the folder `{named or cwd}` cannot be used: {reason}. Name one that is there; a relative one starts at {server_cwd}."
        ) from None
    if not is_folder:
        raise ConfigError(
            f"the folder `{named or cwd}` is not a folder. Name a folder that is there; a relative one starts at {server_cwd}."
        )
    return cwd


def _choose_provider(read: TreeReader, providers: Mapping[str, Tree]) -> str:
    name = _first(read.text("model_provider"), "openai")
    if name in providers:
        return name
    if (known := built_in_id(name)) is not None:
        return known
    there = ", ".join(f"`{known}`" for known in dict.fromkeys((*(row.id for row in BUILT_IN), *providers)))
    raise ConfigError(
        f"Model provider `{name}` not found\n`model_provider` should be one of {there}, or get a table [model_providers.{name}]."
    )


def _choose_model(
    overrides: Overrides, read: TreeReader, provider: str, tables: Mapping[str, Tree], home: Path
) -> tuple[str, tuple[str, ...]]:
    """The model, and what the user should know about the choice."""
    named = _first(overrides.model, read.text("model"))
    if named:
        return named, ()
    if provider in BY_ID:
        return BY_ID[provider].default_model, ()
    wire = cast(WireApi, tables[provider].get("wire_api", "chat"))
    model = DEFAULT_OF_WIRE[wire]
    notice = (
        f"no model is set, so provider `{provider}` is asked for {model}, the default of the {wire} wire; "
        f'to choose another, put `model = "NAME"` into {home / "config.toml"}, pass `model` with the call, or use `-c model=NAME`'
    )
    return model, (notice,)


def _read_base_instructions(
    overrides: Overrides, read: TreeReader, cwd: Path, env: Mapping[str, str], masked: Iterable[Path]
) -> str | None:
    if overrides.base_instructions is not None:
        return overrides.base_instructions
    named = read.text("experimental_instructions_file")
    if named is None:
        return None
    from understudy.config.named_file import read_named_file  # few users have such a file

    path = expand(named, base=cwd, env=env)
    where = "`experimental_instructions_file` should name a text file that replaces the built-in instructions."
    try:
        text = read_named_file(path, MOST_INSTRUCTIONS, map(str, masked)).decode(errors="replace").strip()
    except (OSError, ValueError) as error:
        reason = f"{error.strerror} (os error {error.errno})" if isinstance(error, OSError) else error
        raise ConfigError(f"failed to read experimental instructions file {path}: {reason}\n{where}") from None
    if not text:
        raise ConfigError(f"experimental instructions file is empty: {path}\n{where}")
    return text


def _read_shell_environment(read: TreeReader) -> ShellEnvironment:
    key = "shell_environment_policy"
    return ShellEnvironment(
        inherit=cast(Inherit, read.choice(f"{key}.inherit", ("core", "all", "none")) or "all"),
        ignore_default_excludes=read.flag(f"{key}.ignore_default_excludes") or False,
        exclude=read.texts(f"{key}.exclude") or (),
        set=read.text_table(f"{key}.set"),
        include_only=read.texts(f"{key}.include_only") or (),
    )
