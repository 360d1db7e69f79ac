"""config.toml, profiles, `-c` and arguments: who wins, what the defaults are, and what a slip is told."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from understudy.config import Config, load_config, parse_flag
from understudy.config.keys import KNOWN_KEYS
from understudy.config.load import KEPT, Configs
from understudy.config.providers import BUILT_IN
from understudy.errors import ConfigError
from understudy.places.masks import INSTRUCTIONS, START_UP
from understudy.protocol.records import Overrides

Load = Callable[..., Config]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / ".codex"
    home.mkdir(parents=True)
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


@pytest.fixture
def load(home: Path, work: Path) -> Load:
    def load(
        toml: str = 'model = "m"', *, cli: tuple[tuple[str, Any], ...] = (), env: Mapping[str, str] | None = None, **overrides: Any
    ) -> Config:
        (home / "config.toml").write_text(toml)
        variables = {"HOME": str(home.parent), **(env or {})}
        return load_config(home, Overrides(**overrides), cli=cli, server_cwd=work, env=variables)

    return load


LAYERED = """
model = "file"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[profiles.p]
model = "profile"
approval_policy = "on-failure"
sandbox_mode = "read-only"

[profiles.p.sandbox_workspace_write]
network_access = true

[sandbox_workspace_write]
writable_roots = ["/extra"]
"""


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({}, "file"),
        ({"profile": "p"}, "profile"),
        ({"config": {"profile": "p"}}, "profile"),
        ({"cli": (("profile", "p"),)}, "profile"),
        ({"profile": "p", "cli": (("model", "flag"),)}, "flag"),
        ({"profile": "p", "cli": (("model", "flag"),), "config": {"model": "config"}}, "config"),
        ({"profile": "p", "cli": (("model", "flag"),), "config": {"model": "config"}, "model": "argument"}, "argument"),
        ({"profile": "p", "cli": (("profiles.p.model", "patched profile"),)}, "patched profile"),
    ],
)
def test_the_nearer_setting_wins(load: Load, given: dict[str, Any], model: str) -> None:
    assert load(LAYERED, **given).model == model


def test_a_profile_sets_the_sandbox_and_its_tables_are_joined_with_the_files(load: Load) -> None:
    assert load(LAYERED, profile="p").sandbox.mode == "read-only"
    joined = load(LAYERED, profile="p", sandbox="workspace-write").sandbox
    assert (joined.writable_roots, joined.network) == ((Path("/extra"),), "on")


@pytest.mark.parametrize(
    ("kinds", "policy"),
    [
        ("sandbox_approval = true, rules = true, mcp_elicitations = true", "on-request"),
        ("sandbox_approval = false, rules = true, mcp_elicitations = false", "on-request"),
        ("sandbox_approval = false, rules = false, mcp_elicitations = true", "never"),
    ],
)
def test_codexs_kinds_of_questions_are_taken_as_the_nearest_policy_and_said_once(load: Load, kinds: str, policy: str) -> None:
    config = load(f'model = "m"\napproval_policy = {{ granular = {{ {kinds} }} }}\n')
    assert (config.approval_policy, config.warnings) == (policy, ())
    assert [notice for notice in config.notices if f"taken as `{policy}`" in notice]
    with pytest.raises(ConfigError, match="invalid type: map"):
        load('model = "m"\napproval_policy = { granulr = { rules = true } }\n')


def test_typed_arguments_win_over_policy_and_sandbox_of_every_other_place(load: Load) -> None:
    config = load(LAYERED, profile="p", config={"approval_policy": "never"}, approval_policy="untrusted", sandbox="workspace-write")
    assert (config.approval_policy, config.sandbox.mode) == ("untrusted", "workspace-write")


def test_config_keys_are_dotted_and_apply_in_the_order_given(load: Load) -> None:
    config = load(
        config={
            "shell_environment_policy": {"inherit": "none", "set": {"A": "1"}},
            "shell_environment_policy.set.B": "2",
            "model.no": 1,
            "model": "last",
            "no.such.key": 1,
        }
    )
    assert config.shell_environment.inherit == "none"
    assert config.shell_environment.set == {"A": "1", "B": "2"}
    assert config.model == "last"


def test_a_table_given_as_value_replaces_the_files_table(load: Load) -> None:
    toml = 'model = "m"\nsandbox_mode = "workspace-write"\n[sandbox_workspace_write]\nnetwork_access = true\n'
    assert load(toml).sandbox.network == "on"
    assert load(toml, config={"sandbox_workspace_write": {}}).sandbox.network == "off"


def test_overrides_leave_the_cached_file_as_it_was(load: Load) -> None:
    toml = 'model = "m"\n[shell_environment_policy.set]\nA = "1"\n'
    assert load(toml, config={"shell_environment_policy.set.A": "2"}).shell_environment.set == {"A": "2"}
    assert load(toml).shell_environment.set == {"A": "1"}


def test_a_changed_file_is_read_again_and_a_missing_one_is_empty(load: Load, home: Path, work: Path) -> None:
    assert load('model = "one"').model == "one"
    assert load('model = "two"').model == "two"
    (home / "config.toml").unlink()
    assert load_config(home, Overrides(model="x"), server_cwd=work, env={}).model == "x"


def test_an_unchanged_file_is_not_read_again(load: Load, home: Path, work: Path) -> None:
    config = load('model = "kept"\n[model_providers.p]\nname = "P"\n')
    again = load_config(home, Overrides(), server_cwd=work, env={"HOME": str(home.parent)})
    assert again == config
    assert again.provider_tables is config.provider_tables


def test_without_any_setting_the_defaults_hold(load: Load, home: Path, work: Path) -> None:
    config = load()
    assert (config.approval_policy, config.sandbox.mode, config.sandbox.network) == ("on-request", "workspace-write", "off")
    assert (config.model_provider, config.wire, config.events) == ("openai", "seed", "auto")
    assert (config.model_reasoning_effort, config.model_reasoning_summary) == ("medium", "auto")
    assert (config.project_doc_max_bytes, config.shell_environment.inherit) == (32768, "all")
    assert config.cwd == work
    assert config.state_dir == home / "understudy"
    user = home.parent
    assert config.sandbox.mask == (
        config.state_dir,
        home / "auth.json",
        home / "config.toml",
        *(user / name for name in (".ssh", ".aws", ".gnupg", ".netrc", ".git-credentials", ".config/gh", ".kube")),
        user / ".docker/config.json",
    )
    names = (".git", ".codex", ".agents", ".claude", ".mcp.json", ".gitmodules", ".vscode", ".idea", ".envrc")
    assert config.sandbox.protect == (*names, *INSTRUCTIONS, *START_UP, str(config.state_dir), str(home))
    in_home = load(cwd=str(user)).sandbox.protect
    assert {str(user / name) for name in START_UP} <= set(in_home)  # where shells look for them, they cannot even be made
    assert config.base_instructions is None
    assert config.warnings == ()


def test_one_of_the_defaults_can_be_opened_by_its_name(load: Load, home: Path) -> None:
    default, user = load().sandbox, home.parent
    opened = load(
        config={
            "understudy.sandbox.mask": ["!~/.kube", "!~/.aws/", "more"],
            "understudy.sandbox.protect": ["!.git", "!.bashrc", "extra"],
        }
    ).sandbox
    assert set(default.mask) - set(opened.mask) == {user / ".kube", user / ".aws"}
    assert set(opened.mask) - set(default.mask) == {load().cwd / "more"}
    assert set(default.protect) - set(opened.protect) == {".git", ".bashrc"}
    assert set(opened.protect) - set(default.protect) == {"extra"}


def test_a_home_and_what_lies_above_it_are_read_only_unless_one_says_otherwise(load: Load, home: Path) -> None:
    for cwd in (home.parent, home.parent.parent, Path("/")):
        assert load(cwd=str(cwd)).sandbox.mode == "read-only"
        assert load(cwd=str(cwd), sandbox="workspace-write").sandbox.mode == "workspace-write"
    assert load(cwd=str(home)).sandbox.mode == "workspace-write"


def test_a_folder_of_someone_else_is_read_only_by_default(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert load().sandbox.mode == "read-only"


@pytest.mark.parametrize(
    ("mode", "allowed", "ours", "network"),
    [
        ("workspace-write", False, None, "off"),
        ("workspace-write", True, None, "on"),
        ("workspace-write", True, "loopback", "loopback"),
        ("workspace-write", False, "on", "on"),
        ("read-only", True, None, "off"),
        ("read-only", False, "loopback", "loopback"),
        ("danger-full-access", False, "off", "on"),
    ],
)
def test_network_is_off_until_configured_and_our_key_wins(
    load: Load, mode: str, allowed: bool, ours: str | None, network: str
) -> None:
    given: dict[str, Any] = {"sandbox_mode": mode, "sandbox_workspace_write.network_access": allowed}
    if ours:
        given["understudy.sandbox.network"] = ours
    assert load(config=given).sandbox.network == network


@pytest.mark.parametrize(("given", "opened"), [({}, False), ({"understudy.sandbox.unix_sockets": True}, True)])
def test_unix_sockets_are_refused_unless_the_user_opens_them(load: Load, given: dict[str, Any], opened: bool) -> None:
    assert load(config=given).sandbox.unix_sockets is opened


def test_mask_protect_and_limits_are_the_users_but_our_state_stays_guarded(load: Load, home: Path, work: Path) -> None:
    toml = """
    model = "m"
    [understudy.sandbox]
    mask = ["~/private", "secrets"]
    protect = [".github/", "~/notes"]
    limits = { seconds = 60, processes = 0, memory_mb = 100, file_mb = 5, tmp_mb = 7, tmp_files = 0 }
    """
    sandbox = load(toml).sandbox
    state = home / "understudy"
    assert sandbox.mask == (state, home / "auth.json", home / "config.toml", home.parent / "private", work / "secrets")
    assert sandbox.protect == (".github", str(home.parent / "notes"), str(state), str(home))
    limits = sandbox.limits
    assert (limits.seconds, limits.processes, limits.memory_mb, limits.file_mb) == (60, 0, 100, 5)
    assert (limits.tmp_mb, limits.tmp_files) == (7, 0)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("limits.processes", 2**31, "from 0 (no limit) to 4000000"),
        ("limits.memory_mb", 2**44, "from 0 (no limit) to 1099511627776"),
        ("limits.file_mb", 2**63 - 1, "from 0 (no limit) to 1099511627776"),
        ("protect", ["."], "names within the writable folders"),
        ("protect", [".git", "./"], "names within the writable folders"),
        ("protect", ["../other"], "names within the writable folders"),
        ("protect", ["na*"], "patterns are not understood"),
        ("protect", ["/srv/[ab]"], "patterns are not understood"),
        ("protect", ["!a/../.git"], "names within the writable folders"),
    ],
)
def test_what_the_sandbox_could_not_keep_is_refused_by_name(load: Load, key: str, value: object, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config={f"understudy.sandbox.{key}": value})
    assert f"in `understudy.sandbox.{key}`" in str(caught.value)
    assert wanted in str(caught.value)


def test_cwd_is_absolute_and_relative_to_the_server(load: Load, work: Path) -> None:
    (work / "sub").mkdir()
    assert load(cwd="sub").cwd == work / "sub"
    assert load(cwd="sub/..").cwd == work.resolve()


@pytest.mark.parametrize("cwd", ["missing", "file", "nul\0byte"])
def test_a_cwd_that_is_no_folder_is_refused_by_name(load: Load, work: Path, cwd: str) -> None:
    (work / "file").touch()
    with pytest.raises(ConfigError) as caught:
        load(cwd=cwd)
    assert str(caught.value).startswith(f"the folder `{cwd}` ")


def test_each_built_in_provider_has_a_default_model(load: Load) -> None:
    assert load("").model == "gpt-6.1-sol"
    for row in BUILT_IN:
        assert load(f'model_provider = "{row.id}"').model == row.default_model
        assert load(f'model_provider = "{row.id}"\nmodel = "mine"').model == "mine"


@pytest.mark.parametrize(("name", "meant"), [("llama.cpp", "llamacpp"), ("lm-studio", "lmstudio"), ("ollama", "ollama")])
def test_a_provider_is_found_by_its_other_names(load: Load, name: str, meant: str) -> None:
    assert load(f'model_provider = "{name}"').model_provider == meant
    own = load(f'model = "m"\nmodel_provider = "{name}"\n[model_providers."{name}"]\nname = "Mine"\nbase_url = "http://h/v1"\n')
    assert own.model_provider == name


def test_prices_of_ones_own_are_read_and_checked(load: Load) -> None:
    config = load(
        '[understudy.prices."my/model"]\ninput = 1\ncached = 0.5\noutput = 2.5\n[understudy.prices.m]\ninput = 0\noutput = 0\n'
    )
    assert config.prices == {"my/model": {"input": 1.0, "cached": 0.5, "output": 2.5}, "m": {"input": 0.0, "output": 0.0}}
    for wrong in ("input = 1", "output = 1", "input = -1\noutput = 1", 'input = "1"\noutput = 1', "input = nan\noutput = 1"):
        with pytest.raises(ConfigError, match=r"understudy\.prices"):
            load(f"[understudy.prices.m]\n{wrong}\n")


@pytest.mark.parametrize(
    ("wire", "model"),
    [("", "gpt-6.1-sol"), ("chat", "gpt-6.1-sol"), ("responses", "gpt-6.1-sol"), ("anthropic", "claude-sonnet-5-5")],
)
@pytest.mark.parametrize("name", ["mine", "my.own"])
def test_without_a_model_the_default_of_the_wire_is_asked_and_one_notice_says_so(
    load: Load, home: Path, name: str, wire: str, model: str
) -> None:
    spoken = f'wire_api = "{wire}"\n' if wire else ""
    own = f'model_provider = "{name}"\n[model_providers."{name}"]\nname = "Mine"\n{spoken}'
    for given in ({}, {"config": {"model": None}}, {"config": {"model": ""}}):
        config = load(own, **given)
        (notice,) = config.notices
        assert (config.model, config.warnings) == (model, ())
        asked = f"provider `{name}` is asked for {model}, the default of the {wire or 'chat'} wire"
        assert notice.startswith(f"no model is set, so {asked}")
        assert str(home / "config.toml") in notice
    assert load(own, config={"model": "m"}).notices == ()
    assert load('model_provider = "scripted"').model == "scripted"


@pytest.mark.parametrize(
    ("given", "first_lines", "origin"),
    [
        ({"config": {"model": 5}}, "invalid type: integer `5`, expected a string\nin `model`\n", "the `config` argument"),
        (
            {"config": {"approval_policy": "sometimes"}},
            "unknown variant `sometimes`, expected one of `untrusted`, `on-failure`, `on-request`, `never`\nin `approval_policy`\n",
            "the `config` argument",
        ),
        ({"config": {"mcp_servers.a": {"args": []}}}, "missing field `command`\nin `mcp_servers.a`\n", "the `config` argument"),
        ({"config": {"history": {}}}, "missing field `persistence`\nin `history`\n", "the `config` argument"),
        ({"cli": (("notify", "x"),)}, 'invalid type: string "x", expected a sequence\nin `notify`\n', "`-c`"),
        ({"toml": 'model = "a\\u0000b"'}, "invalid value: a string with a NUL character\nin `model`\n", "{file}"),
        (
            {"cli": (("understudy.sandbox.mask", ["/a\0b"]),)},
            "invalid value: a string with a NUL character\nin `understudy.sandbox.mask`\n",
            "`-c`",
        ),
        (
            {"cli": (("shell_environment_policy.set", {"A": "\0"}),)},
            "invalid value: a string with a NUL character\nin `shell_environment_policy.set.A`\n",
            "`-c`",
        ),
        ({"toml": "model = true"}, "invalid type: boolean `true`, expected a string\nin `model`\n", "{file}"),
        ({"toml": "history = 1.5"}, "invalid type: floating point `1.5`, expected a map\nin `history`\n", "{file}"),
        (
            {"toml": 'model = "m"\nproject_doc_max_bytes = -1'},
            "invalid value: integer `-1`, expected usize\nin `project_doc_max_bytes`\n",
            "{file}",
        ),
        (
            {"toml": '[profiles.q]\nsandbox_mode = "all"', "profile": "q", "model": "m"},
            "unknown variant `all`, expected one of `read-only`, `workspace-write`, `danger-full-access`\nin `sandbox_mode`\n",
            "profile `q` in {file}",
        ),
        (
            {"config": {"model_providers.x.wire_api": "soap"}},
            "unknown variant `soap`, expected one of `responses`, `chat`, `anthropic`\nin `model_providers.x.wire_api`\n",
            "the `config` argument",
        ),
        (
            {"config": {"shell_environment_policy.set.A": 1}},
            "invalid type: integer `1`, expected a string\nin `shell_environment_policy.set.A`\n",
            "the `config` argument",
        ),
    ],
)
def test_a_wrong_value_is_told_with_key_origin_and_what_is_expected(
    load: Load, home: Path, given: dict[str, Any], first_lines: str, origin: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**given)
    text = str(caught.value)
    assert text.startswith(first_lines)
    hint = text.removeprefix(first_lines)
    assert hint.startswith(f"That value is set by {origin.format(file=home / 'config.toml')}; ")
    assert " should be " in hint


def test_an_unknown_profile_or_provider_is_told_with_those_that_are_there(load: Load, home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(LAYERED, profile="missing")
    assert str(caught.value).startswith("config profile `missing` not found\n")
    assert "Profiles there: `p`." in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        load(config={"model_provider": "missing", "model_providers.mine.name": "Mine"})
    assert str(caught.value).startswith("Model provider `missing` not found\n")
    assert "`scripted`, `replay`, `mine`" in str(caught.value)


def test_a_file_that_is_no_toml_is_shown_with_a_caret(load: Load, home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("model = nope")
    lines = str(caught.value).splitlines()
    assert lines[0] == "TOML parse error at line 1, column 9"
    assert lines[2:4] == ["1 | model = nope", "  |         ^"]
    assert lines[-1] == f"in {home / 'config.toml'}"
    with pytest.raises(ConfigError, match=r"^TOML parse error at line 2, column 5"):
        load('model = "m"\nx = ')


def test_a_file_that_cannot_be_read_is_an_error(load: Load, home: Path, work: Path) -> None:
    (home / "config.toml").write_bytes(b'model = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(home, Overrides(), server_cwd=work, env={})
    (home / "config.toml").unlink()
    (home / "config.toml").mkdir()
    with pytest.raises(ConfigError, match=r"cannot read .*config\.toml: Is a directory"):
        load_config(home, Overrides(), server_cwd=work, env={})


def test_misspelt_keys_warn_and_unused_or_foreign_ones_are_silent(load: Load, home: Path) -> None:
    toml = """
    model = "m"
    file_opener = "none"
    something_quite_else = 1
    model_reasoning_efort = "low"
    [tui]
    theme = "x"
    [features]
    plugins = true
    [profiles.p]
    modle = "x"
    [model_providers.mine]
    base-url = "x"
    [understudy]
    colour = "red"
    """
    config = load(toml, config={"model-verbosity": "low"})
    told = [warning.split("`")[1::2] for warning in config.warnings]
    assert told == [
        ["model_reasoning_efort", "model_reasoning_effort"],
        ["profiles.p.modle", "profiles.p.model"],
        ["model_providers.mine.base-url", "model_providers.mine.base_url"],
        ["understudy.colour", "understudy", *KNOWN_KEYS["understudy"]],
        ["model-verbosity", "config", "model_verbosity"],
    ]
    assert str(home / "config.toml") in config.warnings[0]


def test_instructions_are_not_read_through_a_link_of_a_repository_to_what_is_masked(load: Load, home: Path, work: Path) -> None:
    (home / "auth.json").write_text('{"OPENAI_API_KEY": "sk-secret"}')
    (work / "PROMPT.md").symlink_to(home / "auth.json")
    (work / "environ.md").symlink_to("/proc/self/environ")
    for name, why in (("PROMPT.md", "masked"), ("environ.md", "belongs to the kernel")):
        with pytest.raises(ConfigError, match=why):
            load(config={"experimental_instructions_file": name})
    (work / "real.md").write_text("Be brief.")
    (work / "linked.md").symlink_to("real.md")
    assert load(config={"experimental_instructions_file": "linked.md"}).base_instructions == "Be brief."


def test_instructions_come_from_the_argument_or_a_file_that_has_to_be_there(load: Load, work: Path) -> None:
    (work / "prompt.md").write_text("\n Be brief.\n")
    (work / "empty.md").write_text(" \n")
    key = "experimental_instructions_file"
    assert load(config={key: "prompt.md"}).base_instructions == "Be brief."
    assert load(config={key: "missing.md"}, base_instructions="mine").base_instructions == "mine"
    missing = work / "missing.md"
    with pytest.raises(ConfigError) as caught:
        load(config={key: "missing.md"})
    assert str(caught.value).startswith(
        f"failed to read experimental instructions file {missing}: No such file or directory (os error 2)\n"
    )
    with pytest.raises(ConfigError, match=r"^experimental instructions file is empty: .*empty\.md"):
        load(config={key: "empty.md"})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("model=o3", "model", "o3"),
        ('model="o3"', "model", "o3"),
        ("model='it is'", "model", "it is"),
        (" a.b = true ", "a.b", True),
        ("xs=[1,2]", "xs", [1, 2]),
        ("t={k=1}", "t", {"k": 1}),
        ("n=42", "n", 42),
        ("q=a=b", "q", "a=b"),
        ("empty=", "empty", ""),
        ("two=1\nthree=2", "two", "1\nthree=2"),
        ('half="x', "half", "x"),
    ],
)
def test_a_flag_holds_a_toml_value_or_plain_text(text: str, key: str, value: Any) -> None:
    assert parse_flag(text) == (key, value)


@pytest.mark.parametrize("text", ["model", "=x", " = x"])
def test_a_flag_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write -c key=value"):
        parse_flag(text)


def test_json_values_become_toml_values(load: Load) -> None:
    config = load(config={"policy.rules": [{"none": None, "big": 2**70, "yes": True, "deep": [{"n": 1}]}]})
    assert config.policy_rules == ({"none": "", "big": float(2**70), "yes": True, "deep": [{"n": 1}]},)


# -- kept from one conversation to the next


def configs(cwd: Path) -> Configs:
    return Configs((), cwd, {})


def test_what_was_made_from_the_same_is_the_same(home: Path, tmp_path: Path) -> None:
    kept = configs(tmp_path)
    one = kept.load(home, Overrides(model="m"))
    assert kept.load(home, Overrides(model="m")) is one
    assert kept.load(home, Overrides(model="other")).model == "other"


def test_a_changed_file_counts_from_the_next_conversation_on(home: Path, tmp_path: Path) -> None:
    kept = configs(tmp_path)
    assert kept.load(home, Overrides(model="m")).approval_policy == "on-request"
    (home / "config.toml").write_text('approval_policy = "never"')
    assert kept.load(home, Overrides(model="m")).approval_policy == "never"
    (home / "config.toml").unlink()
    assert kept.load(home, Overrides(model="m")).approval_policy == "on-request"
    (home / "config.toml").write_text("approval_policy = 7")
    with pytest.raises(ConfigError, match="approval_policy"):
        kept.load(home, Overrides(model="m"))


def test_another_folder_under_the_same_name_is_looked_at_anew(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    kept = Configs((), place, {"HOME": str(tmp_path / "mine")})
    (tmp_path / "mine").mkdir()
    assert kept.load(home, Overrides(model="m")).sandbox.mode == "workspace-write"
    place.rmdir()
    with pytest.raises(ConfigError, match="cannot be used"):
        kept.load(home, Overrides(model="m"))
    place.symlink_to(tmp_path / "mine")
    assert kept.load(home, Overrides(model="m")).sandbox.mode == "read-only", "the user's home"


def test_a_file_with_instructions_is_read_for_every_conversation(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text('experimental_instructions_file = "words.md"')
    kept = configs(tmp_path)
    for words in ("first", "second"):
        (tmp_path / "words.md").write_text(words)
        assert kept.load(home, Overrides(model="m")).base_instructions == words


def test_many_configurations_are_not_all_kept(home: Path, tmp_path: Path) -> None:
    kept = configs(tmp_path)
    first = kept.load(home, Overrides(model="m"))
    for number in range(KEPT):
        kept.load(home, Overrides(model=f"m{number}"))
    again = kept.load(home, Overrides(model="m"))
    assert again is not first
    assert again == first


def test_a_relative_mask_holds_in_the_whole_project_wherever_a_conversation_begins(load: Load, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (work / "deep/down").mkdir(parents=True)
    masked = load(cwd=str(work / "deep/down"), cli=(("understudy.sandbox.mask", ["secrets"]),)).sandbox.mask
    assert {work / "secrets", work / "deep/secrets", work / "deep/down/secrets"} <= set(masked)
    assert work.parent / "secrets" not in masked
