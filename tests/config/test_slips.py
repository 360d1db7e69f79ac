"""A key that does not count is told about; where it guards something, nothing runs until it is corrected."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config import load_config
from understudy.config.keys import COUNTED_ON, GUARDING, KNOWN_KEYS, TOP_KEYS, WITHOUT_EFFECT, guards
from understudy.config.slips import find_slips
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / ".codex"
    home.mkdir()
    return home


def refusal(home: Path, toml: str, **overrides: Any) -> str:
    (home / "config.toml").write_text(f'model = "m"\n{toml}')
    with pytest.raises(ConfigError) as caught:
        load_config(home, Overrides(**overrides), server_cwd=home.parent, env={})
    return str(caught.value)


def warnings(home: Path, toml: str, **overrides: Any) -> tuple[str, ...]:
    (home / "config.toml").write_text(f'model = "m"\n{toml}')
    return load_config(home, Overrides(**overrides), server_cwd=home.parent, env={}).warnings


DENY = 'prefix = ["rm"]\ndecision = "deny"\n'

SEVERE = [
    (f"[[understudy.rules]]\n{DENY}", "understudy.rules", "policy.rules"),
    (f"[[rules]]\n{DENY}", "rules", "policy.rules"),
    (f"[[policy.rule]]\n{DENY}", "policy.rule", "policy.rules"),
    (f"[[policies.rules]]\n{DENY}", "policies", "policy"),
    (f"[[commands.rules]]\n{DENY}", "commands.rules", "policy.rules"),
    (f"[[understudy.policy.rules]]\n{DENY}", "understudy.policy", "policy"),
    (f"[[understudy.sandbox.rules]]\n{DENY}", "understudy.sandbox.rules", "policy.rules"),
    (f"[['policy.rules']]\n{DENY}", "policy.rules", "policy.rules"),
    ("'understudy.sandbox.network' = 'off'\n", "understudy.sandbox.network", "understudy.sandbox.network"),
    ("[Understudy.Sandbox]\nnetwork = 'off'\n", "Understudy", "understudy"),
    ("[understuddy.sandbox]\nnetwork = 'off'\n", "understuddy", "understudy"),
    ("[understudy.Sandbox]\nmask = []\n", "understudy.Sandbox", "understudy.sandbox"),
    ("[sandboxWorkspaceWrite]\n", "sandboxWorkspaceWrite", "sandbox_workspace_write"),
    ("[policy]\nsomething = 1\n", "policy.something", "rules"),
    ('aproval_policy = "untrusted"\n', "aproval_policy", "approval_policy"),
    ('approval-policy = "untrusted"\n', "approval-policy", "approval_policy"),
    ('sandbox = "read-only"\n', "sandbox", "sandbox_mode"),
    ('[understudy]\nsandbox_mode = "read-only"\n', "understudy.sandbox_mode", "sandbox_mode"),
    ('[tui]\ntheme = "x"\nsandbox_mode = "read-only"\n', "tui.sandbox_mode", "sandbox_mode"),
    ('[model_providers.x]\nname = "x"\napproval_policy = "untrusted"\n', "model_providers.x.approval_policy", "approval_policy"),
    ('mask = ["~/secret"]\n', "mask", "understudy.sandbox.mask"),
    ('[understudy]\nmask = ["~/secret"]\n', "understudy.mask", "understudy.sandbox.mask"),
    ('[understudy.sandbox]\nmasks = ["~/secret"]\n', "understudy.sandbox.masks", "understudy.sandbox.mask"),
    ('[understudy]\nprotects = [".env"]\n', "understudy.protects", "understudy.sandbox.protect"),
    ('[sandbox_workspace_write]\nprotect = [".env"]\n', "sandbox_workspace_write.protect", "understudy.sandbox.protect"),
    ('[understudy.sandbox]\nfirewall = "on"\n', "understudy.sandbox.firewall", "network"),
    ("[understudy.sandbox.limits]\nmemory = 5\n", "understudy.sandbox.limits.memory", "understudy.sandbox.limits.memory_mb"),
    ("[understudy]\nlimits = { seconds = 5 }\n", "understudy.limits", "understudy.sandbox.limits"),
    ('[history]\npersistance = "none"\n', "history.persistance", "history.persistence"),
    ('[shell_environment_policy]\nexcludes = ["X"]\n', "shell_environment_policy.excludes", "shell_environment_policy.exclude"),
    ("disable_responses_storage = true\n", "disable_responses_storage", "disable_response_storage"),
]


@pytest.mark.parametrize(("toml", "written", "right"), SEVERE)
def test_a_slip_in_a_key_that_guards_something_is_an_error_that_names_the_right_place(
    home: Path, toml: str, written: str, right: str
) -> None:
    told = refusal(home, toml)
    assert told.startswith(f"`{written}` in {home / 'config.toml'} ")
    assert f"`{right}`" in told.splitlines()[0]


def test_the_same_by_flag_by_argument_and_in_the_chosen_profile(home: Path) -> None:
    assert "the `config` argument" in refusal(home, "", config={"sandbox.mode": "read-only"})
    with pytest.raises(ConfigError, match=r"`understudy\.rules` in `-c`"):
        load_config(home, Overrides(model="m"), cli=[("understudy.rules", [])], server_cwd=home.parent, env={})
    profiled = '[profiles.careful]\nsandbox-mode = "read-only"\n'
    assert "did you mean `profiles.careful.sandbox_mode`?" in refusal(home, profiled, profile="careful")
    assert len(warnings(home, profiled)) == 1, "a profile that is not used does not stop anything"
    below = f"[[profiles.careful.understudy.rules]]\n{DENY}"
    assert "it belongs at `profiles.careful.policy.rules`" in refusal(home, below, profile="careful")


@pytest.mark.parametrize("key", WITHOUT_EFFECT)
def test_a_key_without_effect_warns_with_the_reason(key: str) -> None:
    tree: dict[str, Any] = {}
    at = tree
    *tables, name = key.replace("*", "mine").split(".")
    for table in tables:
        at = at.setdefault(table, {})
    at[name] = "x"
    for written, whole in ((key.replace("*", "mine"), tree), (f"profiles.p.{key.replace('*', 'mine')}", {"profiles": {"p": tree}})):
        slip = next(iter(find_slips(whole)))
        assert (slip.key, slip.severe) == (written, False)
        assert slip.word.startswith("has no effect: ")


def test_whatever_is_written_in_its_right_place_is_no_slip() -> None:
    def tree_of(known: Any) -> Any:
        return {("mine" if name == "*" else name): tree_of(beneath) for name, beneath in known.items()} if known else "x"

    found = [slip for slip in find_slips(tree_of(KNOWN_KEYS)) if not slip.word.startswith("has no effect")]
    assert found == []


NAMES = st.sampled_from([*TOP_KEYS, *TOP_KEYS["understudy"], *TOP_KEYS["understudy"]["sandbox"], "rules", "x", "profiles", "mine"])
TREES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
    lambda inner: st.dictionaries(st.one_of(NAMES, st.text(max_size=8)), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.one_of(NAMES, st.text(max_size=8)), TREES, max_size=5))
def test_any_tree_can_be_looked_at(tree: dict[str, Any]) -> None:
    for slip in find_slips(tree):
        assert slip.key
        assert slip.word


LETTERS = "abcdefghijklmnopqrstuvwxyz_"


@given(st.data())
def test_one_wrong_letter_in_a_guarding_key_never_passes_in_silence(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([key for key in GUARDING if len(key) > 6]))
    place = data.draw(st.integers(0, len(key.rpartition(".")[2]) - 1)) + len(key) - len(key.rpartition(".")[2])
    letter = data.draw(st.sampled_from(LETTERS))
    misspelt = key[:place] + letter + key[place + 1 :]
    if misspelt == key:
        return
    slips = list(find_slips(tomllib.loads(f"{misspelt} = 'x'\n")))
    assert [slip.severe for slip in slips] == [True]


def test_what_guards_is_a_key_that_is_known() -> None:
    for key in GUARDING:
        at: Any = TOP_KEYS
        for part in key.split("."):
            assert part in at
            at = at[part]
        assert guards(key)


# Every key at the top of codex's own schema, and what may stand in the tables that we use as well.
OF_CODEX = {
    "": """
        agents allow_login_shell analytics approval_policy approvals_reviewer apps apps_mcp_product_sku audio auto_review
        background_terminal_max_timeout browser_use chatgpt_base_url check_for_update_on_startup cli_auth_credentials_store
        compact_prompt computer_use default_permissions desktop developer_instructions disable_paste_burst
        experimental_compact_prompt_file experimental_realtime_start_instructions experimental_realtime_webrtc_call_base_url
        experimental_realtime_ws_backend_prompt experimental_realtime_ws_base_url experimental_realtime_ws_model
        experimental_realtime_ws_startup_context experimental_thread_store experimental_use_unified_exec_tool features feedback
        file_opener forced_chatgpt_workspace_id forced_login_method ghost_snapshot goals hide_agent_reasoning history hooks
        include_apps_instructions include_collaboration_mode_instructions include_environment_context
        include_permissions_instructions instructions log_dir marketplaces mcp_oauth_callback_port mcp_oauth_callback_url
        mcp_oauth_credentials_store mcp_servers memories model model_auto_compact_token_limit
        model_auto_compact_token_limit_scope model_catalog_json model_context_window model_instructions_file model_provider
        model_providers model_reasoning_effort model_reasoning_summary model_verbosity notice notify openai_base_url
        orchestrator oss_provider otel permissions personality plan_mode_reasoning_effort plugins profile profiles
        project_doc_fallback_filenames project_doc_max_bytes project_root_markers projects realtime responses_api_metadata
        review_model sandbox_mode sandbox_workspace_write service_tier shell_environment_policy show_raw_agent_reasoning skills
        sqlite_home suppress_unstable_features_warning tool_output_token_limit tool_suggest tools tui web_search windows
    """,
    "model_providers.mine.": """
        auth aws base_url env_http_headers env_key env_key_instructions experimental_bearer_token http_headers name query_params
        request_max_retries requires_openai_auth stream_idle_timeout_ms stream_max_retries supports_standalone_web_search
        supports_websockets websocket_connect_timeout_ms wire_api
    """,
    "mcp_servers.mine.": """
        args auth bearer_token_env_var command cwd default_tools_approval_mode disabled_tools enabled enabled_tools env
        env_http_headers env_vars environment_id http_headers http_headers_helper name oauth oauth_resource omit_tools_from
        required scopes startup_timeout_ms startup_timeout_sec supports_parallel_tool_calls tool_timeout_sec tools url
    """,
    "sandbox_workspace_write.": "exclude_slash_tmp exclude_tmpdir_env_var network_access writable_roots",
    "shell_environment_policy.": "exclude experimental_use_profile filters ignore_default_excludes include_only inherit set",
    "history.": "max_bytes persistence",
    "tools.": "experimental_request_user_input update_plan web_search",
}
EVERY_KEY = [f"{table}{name}" for table, names in OF_CODEX.items() for name in names.split()]


@pytest.mark.parametrize("below", ["", "profiles.p."])
def test_no_key_of_codex_is_taken_for_a_slip(below: str) -> None:
    for key in EVERY_KEY:
        if below and key in ("profile", "profiles"):
            continue
        tree: dict[str, Any] = {}
        at = tree
        *tables, name = f"{below}{key}".split(".")
        for table in tables:
            at = at.setdefault(table, {})
        at[name] = {} if key in ("profiles", "projects", "model_providers", "mcp_servers") else "x"
        found = list(find_slips(tree))
        assert [slip for slip in found if not slip.idle] == [], key
        assert any(slip.told for slip in found) == (key.replace("mine", "*") in COUNTED_ON), key


def test_a_key_of_codex_that_does_nothing_here_is_no_warning_and_one_that_is_counted_on_a_notice(home: Path) -> None:
    (home / "config.toml").write_text(
        'instructions = "be kind"\nservice_tier = "fast"\nplan_mode_reasoning_effort = "high"\n'
        "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n"
    )
    config = load_config(home, Overrides(model="m"), server_cwd=home.parent, env={})
    assert config.warnings == ()
    assert [notice.partition(" ")[0] for notice in config.notices] == ["`instructions`"]
