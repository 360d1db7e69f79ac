"""The keys that may stand in config.toml, ours and those of `codex` that we do not use, and a word for a misspelt one."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from understudy.config.schema import Tree


def _names(text: str) -> dict[str, Any]:
    return dict.fromkeys(text.split())


# Each name leads to what may stand beneath it: None for a value (or a table whose keys are free),
# a table for a table of fixed keys. "*" stands for any name.
_PROVIDER = _names("""
    name base_url env_key env_key_instructions wire_api query_params http_headers env_http_headers
    request_max_retries stream_max_retries stream_idle_timeout_ms requires_auth requires_openai_auth
    experimental_bearer_token supports_websockets
""")
_MCP_SERVER = _names("""
    command args env env_vars cwd url bearer_token_env_var http_headers env_http_headers enabled required
    startup_timeout_sec startup_timeout_ms tool_timeout_sec enabled_tools disabled_tools
""")
_USED = _names("""
    model model_provider model_context_window model_reasoning_effort model_reasoning_summary
    model_supports_reasoning_summaries model_verbosity approval_policy sandbox_mode disable_response_storage
    notify project_doc_max_bytes profile hide_agent_reasoning show_raw_agent_reasoning openai_base_url
    experimental_instructions_file developer_instructions compact_prompt
""")
_WITHOUT_EFFECT = _names("""
    model_max_output_tokens model_auto_compact_token_limit model_catalog_json model_instructions_file
    file_opener tui chatgpt_base_url experimental_resume experimental_use_exec_command_tool instructions
    preferred_auth_method internal_originator responses_originator_header_internal_override
    disable_paste_burst features permissions default_permissions web_search approvals_reviewer review_model
    include_plan_tool include_apply_patch_tool project_doc_fallback_filenames project_root_markers
""")
_TABLES: Tree = {
    "model_providers": {"*": _PROVIDER},
    "mcp_servers": {"*": _MCP_SERVER},
    "projects": {"*": _names("trust_level")},
    "history": _names("persistence max_bytes"),
    "sandbox_workspace_write": _names("""
        writable_roots network_access exclude_tmpdir_env_var exclude_slash_tmp include_default_writable_roots
    """),
    "shell_environment_policy": _names("""
        inherit ignore_default_excludes exclude set include_only experimental_use_profile
    """),
    "tools": _names("web_search web_search_request view_image"),
    "understudy": {
        **_names("wire events scripted_model rules"),
        "sandbox": {**_names("network unix_sockets mask protect"), "limits": _names("seconds processes memory_mb file_mb")},
    },
}
_TOP: Tree = {**_USED, **_WITHOUT_EFFECT, **_TABLES}
KNOWN_KEYS: Tree = {**_TOP, "profiles": {"*": _TOP}}

# What people write who have another name in mind; too far from the right one to be found by likeness.
_ALIASES = {
    "sandbox": "sandbox_mode",
    "sandbox_policy": "sandbox_mode",
    "approval": "approval_policy",
    "approvals": "approval_policy",
    "approval_mode": "approval_policy",
    "ask_for_approval": "approval_policy",
    "provider": "model_provider",
    "providers": "model_providers",
    "reasoning_effort": "model_reasoning_effort",
    "network_access": "sandbox_workspace_write.network_access",
    "writable_roots": "sandbox_workspace_write.writable_roots",
}
_LIKENESS = 0.8


def find_misspelt(tree: Tree) -> Iterator[tuple[str, str]]:
    """Each key that seems to be meant for a known one, with a word on what was meant."""
    yield from _find(tree, KNOWN_KEYS, "")


def _find(tree: Tree, known: Tree, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if key in known or "*" in known:
            beneath = known.get(key, known.get("*"))
            if isinstance(beneath, Mapping) and isinstance(value, Mapping):
                yield from _find(cast(Tree, value), cast(Tree, beneath), f"{prefix}{key}.")
        elif meant := _nearest(key, known):
            yield prefix + key, f"did you mean `{meant if '.' in meant else prefix + meant}`?"
        elif prefix.startswith("understudy."):  # nobody else adds keys to our tables
            yield prefix + key, "it may hold " + ", ".join(f"`{name}`" for name in known)


def _nearest(key: str, known: Tree) -> str | None:
    plain = key.replace("-", "_").lower()
    if (alias := _ALIASES.get(plain)) and alias.partition(".")[0] in known:
        return alias
    import difflib  # only for the few files that hold an unknown key

    by_plain = {name.replace("_", ""): name for name in known}
    near = difflib.get_close_matches(plain.replace("_", ""), by_plain, n=1, cutoff=_LIKENESS)
    return by_plain[near[0]] if near else None
