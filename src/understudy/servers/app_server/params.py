"""Parameters of the app server's methods. Members that are not named here are ignored, as the protocol says."""

from typing import Any

import msgspec

from understudy.protocol.choices import ApprovalPolicy, Mode, SandboxMode
from understudy.servers.stdio.line_door import read_params

MOST_NESTED = 64  # levels of a config or a schema


class _Params(msgspec.Struct, rename="camel", kw_only=True):
    pass


class ClientInfo(_Params, kw_only=True):
    name: str
    version: str = "0"
    title: str | None = None


class Capabilities(_Params, kw_only=True):
    experimental_api: bool | None = None
    opt_out_notification_methods: list[str] | None = None


class Initialize(_Params, kw_only=True):
    client_info: ClientInfo
    capabilities: Capabilities | None = None


class KindsOfQuestions(msgspec.Struct):
    """Which kinds codex may ask. Mapped to the nearest policy, as in the configuration."""

    sandbox_approval: bool = False
    rules: bool = False


class Granular(msgspec.Struct):
    granular: KindsOfQuestions

    def nearest(self) -> ApprovalPolicy:
        return "on-request" if self.granular.sandbox_approval or self.granular.rules else "never"


class Settings(_Params, kw_only=True):
    """What a client chooses for a thread, from its start or from one turn on."""

    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_policy: ApprovalPolicy | Granular | None = None
    approvals_reviewer: str | None = None
    sandbox: SandboxMode | None = None
    permissions: str | None = None
    config: dict[str, Any] | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None


class StartThread(Settings, kw_only=True):
    ephemeral: bool | None = None


class OneThread(_Params, kw_only=True):
    thread_id: str


class ResumeThread(Settings, kw_only=True):
    thread_id: str
    exclude_turns: bool | None = None


class ForkThread(Settings, kw_only=True):
    thread_id: str
    exclude_turns: bool | None = None
    ephemeral: bool | None = None
    last_turn_id: str | None = None


class ReadThread(OneThread, kw_only=True):
    include_turns: bool | None = None


class NameThread(OneThread, kw_only=True):
    name: str


class ListThreads(_Params, kw_only=True):
    cursor: str | None = None
    limit: int | None = None
    archived: bool | None = None
    cwd: str | list[str] | None = None
    model_providers: list[str] | None = None
    search_term: str | None = None


class ListTurns(OneThread, kw_only=True):
    cursor: str | None = None
    limit: int | None = None
    sort_direction: str | None = None
    items_view: str | None = None


class ListItems(OneThread, kw_only=True):
    turn_id: str | None = None
    cursor: str | dict[str, Any] | None = None
    limit: int | None = None
    sort_direction: str | None = None


class SandboxPolicy(_Params, kw_only=True):
    type: str
    network_access: bool | str | None = None
    writable_roots: list[str] | None = None
    exclude_tmpdir_env_var: bool | None = None
    exclude_slash_tmp: bool | None = None


class ModeSettings(msgspec.Struct, kw_only=True):
    """In the spelling of its clients."""

    model: str | None = None
    reasoning_effort: str | None = None
    developer_instructions: str | None = None


class CollaborationMode(_Params, kw_only=True):
    mode: Mode
    settings: ModeSettings | None = None


class TurnSettings(OneThread, kw_only=True):
    """What a client chooses from one turn on."""

    cwd: str | None = None
    model: str | None = None
    effort: str | None = None
    summary: str | None = None
    approval_policy: ApprovalPolicy | Granular | None = None
    approvals_reviewer: str | None = None
    sandbox_policy: SandboxPolicy | None = None
    permissions: str | None = None
    collaboration_mode: CollaborationMode | None = None


class StartTurn(TurnSettings, kw_only=True):
    input: list[dict[str, Any]]
    output_schema: dict[str, Any] | None = None


class Interrupt(OneThread, kw_only=True):
    turn_id: str


class Steer(OneThread, kw_only=True):
    input: list[dict[str, Any]]
    expected_turn_id: str


class ListPage(_Params, kw_only=True):
    cursor: str | None = None
    limit: int | None = None


class ReadConfig(_Params, kw_only=True):
    include_layers: bool | None = None
    cwd: str | None = None


class Login(_Params, kw_only=True):
    type: str
    api_key: str | None = None


class ListSkills(_Params, kw_only=True):
    cwds: list[str] | None = None


class Nothing(_Params, kw_only=True):
    pass


read = read_params
