"""docs/configuration.md and the code name the same keys, with the same types and defaults."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.docs.configuration_page import PAGE, Row, rows, without_effect
from understudy.config import Config, load_config
from understudy.config.keys import GUARDING, PASSED_OVER, PROJECT_KEYS, TOP_KEYS, WITHOUT_EFFECT
from understudy.config.load import CLAUDE_DOC_NAMES, DOC_NAMES
from understudy.config.mcp_servers import McpServer
from understudy.config.schema import TreeReader
from understudy.config.serve import serve_settings
from understudy.config.store import read_store_choice, read_workspaces
from understudy.errors import ConfigError
from understudy.models.providers import Provider
from understudy.protocol.records import Overrides
from understudy.sandbox.spec import Limits

ROWS = rows()
OLD_NAMES = {"model_providers.*.requires_auth", "mcp_servers.*.startup_timeout_ms"}  # told beside the new one
NOT_FOR_PEOPLE = {
    "model_providers.*.supports_websockets",
    "mcp_servers.*.supports_parallel_tool_calls",
    "shell_environment_policy.experimental_use_profile",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "user" / ".codex"
    home.mkdir(parents=True)
    return home


def load(home: Path, **config: Any) -> Config:
    return load_config(home, Overrides(model="m", config=config), server_cwd=home.parent, env={"HOME": str(home.parent)})


def known_keys() -> set[str]:
    def walk(tree: Mapping[str, Any], prefix: str) -> set[str]:
        found: set[str] = set()
        for name, beneath in tree.items():
            found |= walk(cast(Mapping[str, Any], beneath), f"{prefix}{name}.") if beneath else {prefix + name}
        return found

    found = walk({name: beneath for name, beneath in TOP_KEYS.items() if name not in PASSED_OVER}, "")
    return {key for key in found if not key.startswith("tools.") or key == "tools.view_image"}  # the others are not for us


def test_the_page_and_the_code_have_the_same_keys() -> None:
    idle = {key for key in known_keys() if any(key == name or key.startswith(f"{name}.") for name in WITHOUT_EFFECT)}
    assert sorted(row.key for row in ROWS) == sorted(known_keys() - idle - OLD_NAMES - NOT_FOR_PEOPLE)


def test_the_page_and_the_code_say_the_same_of_keys_without_effect() -> None:
    assert without_effect() == WITHOUT_EFFECT


def test_the_page_names_what_guards_and_what_a_project_may_set() -> None:
    text = " ".join(PAGE.read_text().split())
    guarding = re.search(r"guards something \(([^)]*)\)", text)
    project = re.search(r"A project's file may set (.*?)\. Anything else", text)
    assert guarding is not None
    assert project is not None
    assert re.findall(r"`([^`]+)`", guarding[1]) == list(GUARDING)
    assert set(re.findall(r"`([^`]+)`", project[1])) == PROJECT_KEYS


def written(row: Row) -> str:
    return row.key.replace("*", "mine")


def settings(row: Row, value: object) -> dict[str, Any]:
    """The key with that value, and what it needs beside it."""
    beside: dict[str, Any] = {"model_providers.mine.name": "Mine"} if row.key.startswith("model_providers.") else {}
    if row.key.startswith("understudy.prices."):
        beside = {"understudy.prices.mine.input": 1, "understudy.prices.mine.output": 1}
    if row.key.startswith("mcp_servers.") and not row.key.endswith((".command", ".url")):
        beside = {"mcp_servers.mine.command": "x"}
    if row.key.startswith("projects."):
        return {"projects": {"/x": {"trust_level": value}}}
    return {**beside, written(row): value}


WRONG: dict[str, tuple[object, ...]] = {
    "text": (1, [], {}),
    "true or false": (1, "true"),
    "number": ("1", -1, 1.5),
    "amount": ("1", -1, True, float("inf")),
    "list of texts": ("x", [1]),
    "table of texts": ("x", {"a": 1}),
    "list of tables": ("x", ["x"]),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_a_value_of_another_type_than_the_page_says_is_refused_by_name(home: Path, row: Row) -> None:
    for wrong in WRONG[row.kind] if not row.choices else ("no-such-choice", 1):
        with pytest.raises(ConfigError) as caught:
            load(home, **settings(row, wrong))
        assert written(row).rpartition(".")[2] in str(caught.value)


@pytest.mark.parametrize("row", [row for row in ROWS if row.choices], ids=lambda row: row.key)
def test_each_choice_that_the_page_names_is_taken(home: Path, row: Row) -> None:
    for choice in row.choices:
        load(home, **settings(row, choice))


def sandbox(name: str) -> Callable[[Config], Any]:
    return lambda config: getattr(config.sandbox, name)


def variables(name: str) -> Callable[[Config], Any]:
    return lambda config: getattr(config.shell_environment, name)


def at_home(config: Config, paths: tuple[Any, ...]) -> list[str]:
    """As the page writes them; our own, which are always among them, left out."""
    user = str(config.home.parent)
    ours = str(config.home)
    return [str(path).replace(user, "~") for path in paths if not str(path).startswith(ours)]


READ: dict[str, Callable[[Config], Any]] = {
    "project_doc_fallback_filenames": lambda config: list(config.project_doc_names[len(DOC_NAMES) : -len(CLAUDE_DOC_NAMES)]),
    "model_provider": lambda config: config.model_provider,
    "tools.view_image": lambda config: config.view_image,
    "sandbox_workspace_write.writable_roots": lambda config: list(config.sandbox.writable_roots),
    "sandbox_workspace_write.network_access": lambda config: config.sandbox.network == "on",
    "understudy.sandbox.mask": lambda config: at_home(config, config.sandbox.mask),
    "understudy.sandbox.protect": lambda config: at_home(config, config.sandbox.protect),
    "understudy.commands.timeout_seconds": lambda config: config.command_seconds,
    "understudy.commands.sessions": lambda config: config.command_sessions,
    "understudy.commands.idle_seconds": lambda config: config.command_idle_seconds,
    "understudy.mcp.sandboxed": lambda config: [server.name for server in config.mcp_servers if server.sandboxed],
    "understudy.mcp.wait_seconds": lambda config: config.mcp_wait_seconds,
    "understudy.task_seconds": lambda config: int(config.task_seconds),
    "understudy.question_timeout": lambda config: int(config.questions.timeout_seconds),
    "understudy.hooks.may_allow": lambda config: config.hooks_may_allow,
    "understudy.unasked": lambda config: config.questions.unasked,
    "understudy.on_question.command": lambda config: list(config.questions.command),
    "understudy.on_question.url": lambda config: config.questions.url,
    "sandbox_mode": sandbox("mode"),
    "understudy.sandbox.network": sandbox("network"),
    "understudy.sandbox.unix_sockets": sandbox("unix_sockets"),
    "policy.rules": lambda config: list(config.policy_rules),
    "history.persistence": lambda config: config.history_persistence,
    **{f"shell_environment_policy.{name}": variables(name) for name in ("inherit", "ignore_default_excludes", "set")},
    "understudy.store.url": lambda config: read_store_choice(config.home, {}).url or "sqlite",
    "understudy.store.url_file": lambda _: None,
    "understudy.cluster.audit_key_file": lambda _: None,
    "understudy.cluster.host_name": lambda config: read_store_choice(config.home, {}).host_name,
    "understudy.cluster.snapshots": lambda config: read_workspaces(config.home, {}).snapshots,
    "understudy.cluster.snapshot_also": lambda config: list(read_workspaces(config.home, {}).also),
    "understudy.cluster.workspaces": lambda config: str(read_workspaces(config.home, {}).folder.relative_to(config.home)),
    "understudy.cluster.workspace_urls": lambda config: read_workspaces(config.home, {}).urls,
    "understudy.cluster.workspace_seconds": lambda config: int(read_workspaces(config.home, {}).seconds),
    "understudy.cluster.workspace_mb": lambda config: read_workspaces(config.home, {}).most_mb,
    "understudy.cluster.lease_seconds": lambda config: int(read_store_choice(config.home, {}).lease_seconds),
    "shell_environment_policy.exclude": lambda config: list(config.shell_environment.exclude),
    "shell_environment_policy.include_only": lambda config: list(config.shell_environment.include_only),
}
LIMITS = "understudy.sandbox.limits."
BUDGET = "understudy.budget."
PROVIDER = "model_providers.*."
SERVER = "mcp_servers.*."
NAMES_OF_SERVERS = {"startup_timeout_sec": "startup_seconds", "tool_timeout_sec": "tool_seconds"}


SERVE = "understudy.serve."
PUSH = "understudy.push."


def serve_default(name: str, config: Config) -> Any:
    if ".*." in name:  # of a caller who is not named
        choices = serve_settings(config.home, TreeReader({}), {}).issued.of("mine", ())
        return choices.roots if name.endswith(".roots") else sorted(choices.modes)
    value = getattr(serve_settings(config.home, TreeReader({}), {}), name)
    match value:
        case Path():
            return value.relative_to(config.home).as_posix()
        case tuple():
            return list(cast(tuple[str, ...], value))
        case float():
            return int(value)
        case _:
            return value


def server_default(name: str) -> Any:
    if name == "enabled":
        return True
    if name == "tools.*.approval_mode":
        return None
    name = NAMES_OF_SERVERS.get(name, name).replace("default_tools_", "")
    value = msgspec.to_builtins(McpServer("mine"))[name]
    return int(value) if isinstance(value, float) else value


def actual_default(row: Row, config: Config) -> Any:
    if row.key.startswith(PROVIDER):
        return msgspec.to_builtins(Provider("mine", "Mine"))[row.key.removeprefix(PROVIDER)]
    if row.key.startswith(SERVER):
        return server_default(row.key.removeprefix(SERVER))
    if row.key.startswith(SERVE):
        return serve_default(row.key.removeprefix(SERVE), config)
    if row.key.startswith(PUSH):
        return serve_default(f"push_{row.key.removeprefix(PUSH)}", config)
    if row.key.startswith(LIMITS):
        return getattr(Limits(), row.key.removeprefix(LIMITS))
    if row.key.startswith(BUDGET):
        return getattr(config.budget, row.key.removeprefix(BUDGET).removeprefix("call."))
    return READ[row.key](config) if row.key in READ else getattr(config, row.key.removeprefix("understudy."))


@pytest.mark.parametrize("row", [row for row in ROWS if row.default.startswith("`")], ids=lambda row: row.key)
def test_the_default_is_what_the_page_says(home: Path, tmp_path: Path, row: Row) -> None:
    work = tmp_path / "work"
    work.mkdir()
    config = load_config(home, Overrides(model="m"), server_cwd=work, env={"HOME": str(home.parent)})
    stated = row.default.strip("`")
    actual = actual_default(row, config)
    assert (actual if isinstance(actual, str) else json.dumps(actual)) == stated


def test_where_the_page_states_no_default_there_is_none(home: Path) -> None:
    config = load(home)
    for row in ROWS:
        if row.default == "none" and row.key not in (
            "model",
            "profile",
            "experimental_instructions_file",
            "projects.*.trust_level",
        ):
            assert actual_default(row, config) in (None, ""), row.key
