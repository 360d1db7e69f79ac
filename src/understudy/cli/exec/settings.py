"""Makes a conversation's configuration from the options of `exec`, and checks it before one begins."""

import os
import sys
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.cli.exec.input import say_aside
from understudy.cli.exec.options import ExecRequest
from understudy.config.file import read_config_file
from understudy.config.home import find_home
from understudy.config.load import Configs
from understudy.config.model import Config
from understudy.config.overrides import apply, assignments, parse_flag
from understudy.config.sandbox import places_of
from understudy.config.schema import Tree
from understudy.config.slips import unknown_keys
from understudy.errors import BadRequest, ConfigError
from understudy.places.placeholders import begins_repository
from understudy.places.places import Places
from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.protocol.encodable import visible
from understudy.protocol.records import Overrides

NO_REPOSITORY = "Not inside a trusted directory and --skip-git-repo-check was not specified."
WHAT_TO_DO = (
    "There is no git repository to go back to here. Work in one, trust the folder (`understudy trust DIR`), or pass that option."
)

# Features that programs switch on and off in codex. Here they have no effect; a word that is not listed may be a mistake.
FEATURES = frozenset([
    "apply_patch_freeform",
    "exec_policy",
    "multi_agent",
    "plan_tool",
    "rmcp_client",
    "shell_snapshot",
    "shell_tool",
    "skills",
    "streamable_shell",
    "unified_exec",
    "view_image_tool",
    "web_search",
    "web_search_cached",
    "web_search_request",
])  # fmt: skip


def defaults_for(request: ExecRequest) -> Tree:
    """Settings if neither an option nor the configuration says anything: `exec` may run with nobody watching."""
    asks = not request.json and os.isatty(0) and os.isatty(2)
    return {"sandbox_mode": "read-only", "approval_policy": "on-request" if asks else "never"}


def overrides_from(request: ExecRequest) -> Overrides:
    """The choices of the command line. Raises `ConfigError`."""
    note_features(request)
    settings = _settings(request)
    if request.ignore_rules:
        settings["policy.rules"] = []
    if request.ephemeral:
        settings["history.persistence"] = "none"
    new = request.begins
    return Overrides(
        model=request.model or None,
        profile=request.profile,
        cwd=_folder(request.cwd),
        approval_policy="never" if request.bypass else cast(ApprovalPolicy | None, request.approval_policy),
        sandbox=_sandbox(request),
        config=settings or None,
        include_plan_tool=True if new else None,
    )


def _settings(request: ExecRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {"model_provider": request.local_provider or "oss"} if request.oss else {}
    for text in request.config:
        key, value = parse_flag(text)
        settings.pop(key, None)  # the last one counts, even if another key sets a part of the same table
        settings[key] = value
    return settings


def places_from(request: ExecRequest) -> Places:
    """From where files that the command line names may be read for a model. Raises `ConfigError`."""
    chosen = Overrides(model=request.model or None, profile=request.profile, cwd=_folder(request.cwd), config=_settings(request))
    reads_file = not request.ignore_user_config
    configs = Configs((), Path.cwd(), os.environ, defaults=defaults_for(request), reads_user_file=reads_file, given_by="`-c`")
    return places_of(configs.load(find_home(os.environ), chosen))


def _sandbox(request: ExecRequest) -> SandboxMode | None:
    if request.bypass:
        return "danger-full-access"
    if request.full_auto and request.sandbox is None:
        sys.stderr.write("understudy: --full-auto means --sandbox workspace-write; write that instead\n")
        return "workspace-write"
    return cast(SandboxMode | None, request.sandbox)


def _folder(named: str | None) -> str | None:
    return None if named is None else os.path.abspath(named)


def note_features(request: ExecRequest) -> None:
    for name in (*request.enable, *request.disable):
        if name not in FEATURES:
            sys.stderr.write(f"understudy: unknown feature {name!r}: it has no effect\n")
    if request.local_provider is not None and not request.oss:
        sys.stderr.write("understudy: --local-provider has no effect without --oss\n")
    for given, option, instead in (
        (request.approve_for_me, "--approve-for-me", "nobody answers in your place here; -a and the rules say what is asked"),
        (request.bypass_hook_trust, "--dangerously-bypass-hook-trust", "`understudy hooks trust` lets a folder's hooks count"),
        (request.trust, "--trust", "`understudy trust DIR` trusts a folder"),
    ):
        if given:
            sys.stderr.write(f"understudy: {option} has no effect: {instead}\n")


def add_folders(request: ExecRequest, chosen: Overrides, config: Config) -> Overrides:
    """`--add-dir` adds to the configured folders."""
    if not request.add_dir:
        return chosen
    if config.sandbox.mode == "read-only":
        say_aside("understudy: --add-dir has no effect, because the sandbox is read-only; use -s workspace-write")
    folders = [folder for folder in map(os.path.abspath, request.add_dir) if _is_there(folder)]
    key = "sandbox_workspace_write.writable_roots"
    roots = [*map(str, config.sandbox.writable_roots), *folders]
    return msgspec.structs.replace(chosen, config={**(chosen.config or {}), key: list(dict.fromkeys(roots))})


def _is_there(folder: str) -> bool:
    """Programs name folders that only some machines have; a missing one grants nothing and is no error."""
    if os.path.isdir(folder):
        return True
    say_aside(f"understudy: --add-dir {visible(folder)} is left out: there is no such folder")
    return False


def checked(request: ExecRequest, config: Config) -> Config:
    """The configuration, with a warning for each unknown key of `-c`. Raises `ConfigError` instead, if that is wanted."""
    unknown = [f"`{key}` in `-c` is ignored: it is not a key" for key in _unknown(request)]
    if request.strict_config:
        file = read_config_file(config.home)
        unknown += [f"`{key}` in {file.path} is not a key" for key in unknown_keys(file.tree)]
        unknown += [warning for warning in config.warnings if "is not a key" in warning]
        if unknown:
            raise ConfigError("\n".join(dict.fromkeys(unknown)))
    return msgspec.structs.replace(config, warnings=(*config.warnings, *unknown))


def _unknown(request: ExecRequest) -> list[str]:
    flags = apply({}, assignments([parse_flag(text) for text in request.config], ""))
    return unknown_keys(flags)


def check_repository(request: ExecRequest, config: Config) -> None:
    """Raises `BadRequest` if there is no way to restore the files that a turn changes."""
    if request.skip_git_check or request.bypass or _in_repository(str(config.cwd)):
        return
    from understudy.config.trust import TrustStore

    if TrustStore(config.state_dir / "trust.json").standing(config.cwd, config.projects) != "trusted":
        raise BadRequest(f"{NO_REPOSITORY}\n{WHAT_TO_DO}")


def _in_repository(folder: str) -> bool:
    folder = os.path.realpath(folder)
    while True:
        if begins_repository(folder):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
