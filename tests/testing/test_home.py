"""A home made for a test: what is written there is what was meant, and nothing of the tester's own environment leaks in."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.testing import CodexHome, write_config

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_values: st.SearchStrategy[Any] = st.recursive(
    _text | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)


@given(value=_values)
def test_whatever_is_written_can_be_read_again(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("home") / "config.toml"
    write_config(path, {"a.b": value, "c": [value]})
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {"a": {"b": value}, "c": [value]}


def test_a_home_is_made_for_a_model_and_settings_replace_its_own(tmp_path: Path) -> None:
    home = CodexHome(
        tmp_path / "user" / ".codex", "http://127.0.0.1:1/v1", wire="responses", config={"approval_policy": "untrusted"}
    )
    written = tomllib.loads((home.path / "config.toml").read_text())
    provider = written["model_providers"][written["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == ("http://127.0.0.1:1/v1", "responses")
    assert written["approval_policy"] == "untrusted"


def test_a_config_that_is_there_stays_when_nothing_is_said(tmp_path: Path) -> None:
    CodexHome(tmp_path, config={"model": "mine"})
    CodexHome(tmp_path)
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {"model": "mine"}


def test_keys_and_proxies_of_the_tester_do_not_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTPS_PROXY", "SOME_TOKEN"):
        monkeypatch.setenv(name, "x")
    environment = CodexHome(tmp_path / ".codex").environment({"MINE": "1"})
    assert {"HOME", "CODEX_HOME", "MINE", "PATH"} <= set(environment)
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY", "SOME_TOKEN"} & set(environment)
    assert environment["HOME"] == str(tmp_path)
