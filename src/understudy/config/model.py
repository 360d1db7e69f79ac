"""The configuration of one conversation, complete and immutable.

Structs rather than dataclasses: they are needed at the start, and msgspec makes such classes many times faster.

Also what happens to a question that nobody answers, and who is told about it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import msgspec

from understudy.config.mcp_servers import McpServer
from understudy.config.schema import TreeReader
from understudy.protocol.choices import ApprovalPolicy, NetworkMode, SandboxMode
from understudy.protocol.records import Budget

Unasked = Literal["deny", "wait"]


class QuestionSettings(msgspec.Struct, frozen=True, kw_only=True):
    timeout_seconds: float = 0.0  # after that, an unanswered question is denied; 0: never
    unasked: Unasked = "deny"  # whether a question waits for somebody if the caller cannot be asked
    command: tuple[str, ...] = ()  # a program that is started for each question
    url: str | None = None  # an address to which each question is posted


def read_questions(read: TreeReader) -> QuestionSettings:
    return QuestionSettings(
        timeout_seconds=read.amount("understudy.question_timeout") or 0.0,
        unasked=cast(Unasked, read.choice("understudy.unasked", ("deny", "wait")) or "deny"),
        command=read.texts("understudy.on_question.command") or (),
        url=_read_url(read),
    )


def _read_url(read: TreeReader) -> str | None:
    key = "understudy.on_question.url"
    url = read.text(key)
    if url and not url.lower().startswith(("http://", "https://")):
        raise read.mismatch(key, "invalid value: not an address", "an address that begins with `https://` or `http://`")
    return url or None


Inherit = Literal["all", "core", "none"]
Wire = Literal["seed", "modern"]
EventMethods = Literal["auto", "both", "codex/event", "none"]
ReportKind = Literal["brief", "full"]
REPORT_KINDS: Final = get_args(ReportKind)
HistoryPersistence = Literal["save-all", "none"]
CredentialsStore = Literal["file", "keyring", "auto", "ephemeral"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use. None: the sandbox's default; 0: no limit."""

    seconds: int | None = None
    processes: int | None = None
    memory_mb: int | None = None
    file_mb: int | None = None
    tmp_mb: int | None = None
    tmp_files: int | None = None


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: SandboxMode
    writable_roots: tuple[Path, ...] = ()  # in addition to cwd; absolute
    network: NetworkMode = "off"  # the network in this mode
    unix_sockets: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False
    mask: tuple[Path, ...] = ()  # absolute; unreadable for commands
    protect: tuple[str, ...] = ()  # not to be written: a name within every writable root, or an absolute path
    kept: tuple[str, ...] = ()  # further such names, which commands may create if they are missing
    opened: tuple[str, ...] = ()  # names of `!`: these files are not protected for what they are
    limits: Limits = Limits()


class ShellEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Which variables a command gets."""

    inherit: Inherit = "all"
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: Mapping[str, str] = {}
    include_only: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Every value is checked, and defaults are filled in, by `config.load`. Compared by value."""

    home: Path
    state_dir: Path
    cwd: Path
    model: str
    model_provider: str
    provider_tables: Mapping[str, Mapping[str, Any]]  # [model_providers] as written, types checked
    openai_base_url: str | None
    cli_auth_credentials_store: CredentialsStore  # where a login stores keys
    model_reasoning_effort: str
    effort_is_chosen: bool  # by the user: then even an unknown model is asked for it
    model_reasoning_summary: str
    model_supports_reasoning_summaries: bool | None
    model_verbosity: str | None
    model_context_window: int | None
    model_auto_compact_token_limit: int | None
    view_image: bool  # whether the tool of that name is offered
    tool_output_token_limit: int | None  # the most that a model gets of one output; None: our own limits
    approval_policy: ApprovalPolicy
    sandbox: SandboxSettings
    shell_environment: ShellEnvironment
    disable_response_storage: bool
    notify: tuple[str, ...]
    questions: QuestionSettings
    project_doc_max_bytes: int
    project_doc_names: tuple[str, ...]  # the first of these that can be read in a folder contains its instructions
    show_raw_agent_reasoning: bool
    hide_agent_reasoning: bool
    history_persistence: HistoryPersistence
    base_instructions: str | None  # None: ours, see `engine/setup/setup.py`
    developer_instructions: str | None
    compact_prompt: str | None
    include_plan_tool: bool
    plans: bool  # plan mode: whatever the sandbox mode, nothing may change before the user has agreed to a plan
    mcp_servers: tuple[McpServer, ...]  # whose tools are offered
    disabled_servers: tuple[McpServer, ...]
    mcp_wait_seconds: float  # how long a first request waits for them
    policy_rules: tuple[Mapping[str, Any], ...]  # [[policy.rules]] as written
    projects: Mapping[str, Mapping[str, Any]]  # [projects] as written
    wire: Wire
    events: EventMethods
    thread_in_text: bool
    report: ReportKind
    task_seconds: float  # for so long a client can ask for a task; 0: calls never become tasks
    budget: Budget  # of a conversation
    call_budget: Budget  # of each call
    command_seconds: int  # for a command that the model does not limit itself
    command_sessions: int  # commands of one conversation that may outlive their calls at the same time
    command_idle_seconds: int  # a command is ended if the model does not ask about it for so long
    scripted_model: Path | None
    record: Path | None  # the file in which exchanges with models are recorded
    replay: Path | None  # the recording that the provider `replay` plays
    prices: Mapping[str, Mapping[str, float]]  # by model: `input`, `output` and perhaps `cached`, in USD per million tokens
    skills: bool
    claude_home: str  # Claude Code's folder with the user's own files
    agents_home: str  # the folder with files for all agents
    warnings: tuple[str, ...]  # about settings that do not count as written
    hooks: Mapping[str, Any] = {}  # [hooks] of the user's own file, as written: no call or flag may name programs there
    hooks_may_allow: bool = False  # whether hooks of the user's own files may answer questions
    assumes_model: bool = False  # nobody has named a model, and the provider is the user's own
    notices: tuple[str, ...] = ()  # for the user to read once; programs need not see them
