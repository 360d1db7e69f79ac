"""The keys that config.toml may contain: ours, those of `codex` that we do not use, and those that guard something."""

from typing import Any

from understudy.config.schema import Tree


def _names(text: str) -> dict[str, Any]:
    return dict.fromkeys(text.split())


# Each name leads to what may be below it: None for a value (or a table with arbitrary keys), a table for a table of fixed keys. "*"
# stands for any name.
_PROVIDER = _names("""
    name base_url env_key env_key_instructions wire_api query_params http_headers env_http_headers
    request_max_retries stream_max_retries stream_idle_timeout_ms requires_auth requires_openai_auth
    experimental_bearer_token supports_websockets
""")
_MCP_SERVER = _names("""
    command args env env_vars cwd url bearer_token_env_var http_headers env_http_headers enabled required
    startup_timeout_sec startup_timeout_ms tool_timeout_sec enabled_tools disabled_tools
    default_tools_approval_mode supports_parallel_tool_calls roots
""") | {"tools": {"*": _names("approval_mode")}}
_USED = _names("""
    model model_provider model_context_window model_auto_compact_token_limit tool_output_token_limit
    model_reasoning_effort model_reasoning_summary
    model_supports_reasoning_summaries model_verbosity approval_policy sandbox_mode disable_response_storage
    notify project_doc_max_bytes project_doc_fallback_filenames profile
    hide_agent_reasoning show_raw_agent_reasoning openai_base_url
    cli_auth_credentials_store
    experimental_instructions_file developer_instructions compact_prompt
""")
PASSED_OVER = _names("""
    model_max_output_tokens model_catalog_json model_instructions_file
    file_opener tui chatgpt_base_url experimental_resume experimental_use_exec_command_tool instructions
    preferred_auth_method internal_originator responses_originator_header_internal_override
    disable_paste_burst features permissions default_permissions web_search approvals_reviewer review_model
    include_plan_tool include_apply_patch_tool project_root_markers
    sandbox_permissions
    agents allow_login_shell analytics apps apps_mcp_product_sku audio auto_review background_terminal_max_timeout browser_use
    check_for_update_on_startup computer_use desktop experimental_compact_prompt_file experimental_realtime_start_instructions
    experimental_realtime_webrtc_call_base_url experimental_realtime_ws_backend_prompt experimental_realtime_ws_base_url
    experimental_realtime_ws_model experimental_realtime_ws_startup_context experimental_thread_store
    experimental_use_freeform_apply_patch experimental_use_unified_exec_tool experimental_use_rmcp_client feedback
    forced_chatgpt_workspace_id forced_login_method ghost_snapshot goals hooks include_apps_instructions
    include_collaboration_mode_instructions include_environment_context include_permissions_instructions include_view_image_tool
    log_dir marketplaces mcp_oauth_callback_port mcp_oauth_callback_url mcp_oauth_credentials_store memories
    model_auto_compact_token_limit_scope model_reasoning_summary_format notice orchestrator oss_provider otel personality
    plan_mode_reasoning_effort plugins realtime responses_api_metadata service_tier skills sqlite_home
    suppress_unstable_features_warning tool_suggest windows
""")
_BUDGET = _names("tokens cost_usd seconds requests")
_TABLES: Tree = {
    "model_providers": {"*": _PROVIDER},
    "mcp_servers": {"*": _MCP_SERVER},
    "projects": {"*": _names("trust_level")},
    "history": _names("persistence max_bytes"),
    "policy": _names("rules"),
    "sandbox_workspace_write": _names("""
        writable_roots network_access exclude_tmpdir_env_var exclude_slash_tmp include_default_writable_roots
    """),
    "shell_environment_policy": _names("""
        inherit ignore_default_excludes exclude set include_only experimental_use_profile
    """),
    "tools": _names("web_search web_search_request view_image update_plan"),
    "understudy": {
        **_names("wire events thread_in_text report skills scripted_model record replay question_timeout unasked task_seconds"),
        "on_question": _names("command url"),
        "budget": {**_BUDGET, "call": _BUDGET},
        "store": _names("url url_file"),
        "cluster": _names("""
            lease_seconds audit_key_file host_name snapshots snapshot_also workspaces workspace_urls workspace_seconds workspace_mb
        """),
        "prices": {"*": _names("input cached output")},
        "commands": _names("timeout_seconds sessions idle_seconds"),
        "mcp": _names("sandboxed wait_seconds"),
        "hooks": _names("may_allow"),
        "push": _names("subject services"),
        "serve": {
            **_names("""
                host port unix unix_group users token_file tls_cert tls_key public_url allow_host allow_origin trusted_proxies
                no_auth on_disconnect max_body_mb rate concurrency drain_seconds metrics log_format
                keep_days max_store_mb issuer audience groups_claim
            """),
            "subjects": {"*": _names("roots sandbox")},
            "groups": {"*": _names("roots sandbox")},
        },
        "sandbox": {
            **_names("network unix_sockets mask protect"),
            "limits": _names("seconds processes memory_mb file_mb tmp_mb tmp_files"),
        },
    },
}
TOP_KEYS: Tree = {**_USED, **PASSED_OVER, **_TABLES}
# Keys of codex in tables that we use, too.
_PASSED_OVER_WITHIN: Tree = {
    "model_providers": {"*": _names("auth aws supports_standalone_web_search websocket_connect_timeout_ms")},
    "mcp_servers": {"*": _names("auth environment_id http_headers_helper name oauth oauth_resource omit_tools_from scopes")},
    "shell_environment_policy": _names("filters"),
    "tools": _names("experimental_request_user_input"),
}


def _joined(tree: Tree, more: Tree) -> Tree:
    return {**tree, **{name: _joined(tree[name], beneath) if tree.get(name) else beneath for name, beneath in more.items()}}


_OF_BOTH = _joined(TOP_KEYS, _PASSED_OVER_WITHIN)
KNOWN_KEYS: Tree = {**_OF_BOTH, "profiles": {"*": _OF_BOTH}}

# Keys without effect here, with the reason that `config check` gives. People who share codex's file may well have some.
WITHOUT_EFFECT = {
    "model_max_output_tokens": "the provider's own limit holds",
    "model_instructions_file": "use `experimental_instructions_file`",
    "instructions": "use `experimental_instructions_file` or an AGENTS.md file",
    "permissions": "use `sandbox_mode`, `understudy.sandbox` and `policy.rules`",
    "default_permissions": "use `sandbox_mode`, `understudy.sandbox` and `policy.rules`",
    "sandbox_permissions": "use `sandbox_mode`, `understudy.sandbox` and `policy.rules`",
    "approvals_reviewer": "questions go to the client",
    "model_providers.*.experimental_bearer_token": "put the key into a variable and name it with `env_key`",
    "sandbox_workspace_write.exclude_tmpdir_env_var": "commands have a private temporary folder in any case",
    "sandbox_workspace_write.exclude_slash_tmp": "commands have a private `/tmp` in any case",
    "sandbox_workspace_write.include_default_writable_roots": "the working directory is always writable in that mode",
    "shell_environment_policy.filters": "use `exclude`, `set` and `include_only`",
    "history.max_bytes": "nothing is deleted automatically",
}

# Those on which a user may rely: if one is set, it is named whenever something runs.
COUNTED_ON = frozenset({
    "model_instructions_file",
    "instructions",
    "permissions",
    "default_permissions",
    "sandbox_permissions",
    "model_providers.*.experimental_bearer_token",
    "shell_environment_policy.filters",
})  # fmt: skip

# A misspelt one of these would leave open what the user wanted closed.
GUARDING = (
    "approval_policy",
    "sandbox_mode",
    "sandbox_workspace_write",
    "shell_environment_policy",
    "policy",
    "history",
    "disable_response_storage",
    "understudy.sandbox",
    "understudy.budget",
    "understudy.store",
    "understudy.serve.users",
    "understudy.serve.subjects",
    "understudy.serve.groups",
)
_GUARDING_A_SERVER = ("enabled_tools", "disabled_tools", "default_tools_approval_mode", "tools")

# What the .codex/config.toml of a trusted project may set: nothing that decides what may run, what may be read, or where anything
# is sent.
PROJECT_KEYS = frozenset({
    "model",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_supports_reasoning_summaries",
    "model_verbosity",
    "hide_agent_reasoning",
    "show_raw_agent_reasoning",
    "developer_instructions",
    "project_doc_max_bytes",
    "understudy.commands.timeout_seconds",
})  # fmt: skip
# What it may set for its MCP servers: no variables of the user's, and nothing about questions.
PROJECT_SERVER_KEYS = frozenset(
    _names("""
    command args env cwd url http_headers enabled required startup_timeout_sec startup_timeout_ms tool_timeout_sec
    enabled_tools disabled_tools supports_parallel_tool_calls
""")
)


def guards(key: str) -> bool:
    """Whether this dotted key, at the top level, decides what is kept from the agent."""
    if key.startswith("mcp_servers."):
        return key.split(".")[2:3] != [] and key.split(".")[2] in _GUARDING_A_SERVER
    return any(key == name or key.startswith(f"{name}.") for name in GUARDING)
