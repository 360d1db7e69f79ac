"""docs/providers.md: every built-in provider has a section, and what it configures asks where, how and with what key it says."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.cli.program import Program
from understudy.config.providers import BUILT_IN, BY_ID, OPENAI_URL, BuiltIn
from understudy.testing import ScriptedModel, say

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
OWN = "gateway"
KEY = "sk-of-the-test"
APIS = {"responses": "Responses", "chat": "Chat Completions", "anthropic": "Messages"}
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


def sections() -> dict[str, tuple[str, str]]:
    """By provider: its configuration, and its section."""
    found: dict[str, tuple[str, str]] = {}
    for section in PAGE.split("\n## ")[1:]:
        [settings] = re.findall(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        found[tomllib.loads(settings)["model_provider"]] = (settings, section)
    return found


def rows() -> list[BuiltIn]:
    return [row for row in BUILT_IN if row.id not in ("scripted", "replay", "oss")]  # `oss` is under Ollama


def test_every_built_in_provider_has_a_section_that_says_what_holds() -> None:
    assert list(sections()) == [*(row.id for row in rows()), OWN]
    for row in rows():
        settings, section = sections()[row.id]
        assert section.startswith(row.name)
        key = row.env_key or ("OPENAI_API_KEY" if row.id == "openai" else None)
        assert (f"`{key}`" if key else "- No key.") in section
        assert row.env_key is None or "Tried: " in section
        if key:
            assert APIS[row.wire_api] in section
        if row.address_variable:
            assert f"`{row.address_variable}`" in section
        if "localhost" in row.base_url:
            [port] = re.findall(r"localhost:(\d+)", row.base_url)
            assert port in section or row.id == "ollama"
        if row.id != "azure":
            assert tomllib.loads(settings).get("model", row.default_model) == row.default_model
    assert f"`{BY_ID['oss'].address_variable}`" in sections()["ollama"][1]


def moved(provider: str, settings: str, url: str) -> str:
    """To a model of the test, which need not be asked how much it can read."""
    if "model_context_window" not in settings:
        settings = f"model_context_window = 200000\n{settings}"
    if "base_url" in settings:
        return re.sub(r'base_url = ".*"', f'base_url = "{url}"', settings)
    return f'{settings}\n[model_providers.{provider}]\nbase_url = "{url}"\n'


@pytest.mark.quick(1)
@pytest.mark.parametrize("provider", list(sections()))
async def test_what_a_section_configures_is_asked_as_it_says(tmp_path: Path, provider: str) -> None:
    settings, section = sections()[provider]
    given = tomllib.loads(settings)
    own: dict[str, str] = given.get("model_providers", {}).get(provider, {}) if provider == OWN else {}
    row = BY_ID.get(provider)
    wire = own.get("wire_api") or (row.wire_api if row else "chat")
    variable = own.get("env_key") or (row.env_key if row and row.base_url != OPENAI_URL else "OPENAI_API_KEY")
    program = Program(tmp_path / ".codex", tmp_path)
    program.home.mkdir()
    async with ScriptedModel([say("Hello.")]) as model:
        program.configure(moved(provider, settings, model.url))
        env = {"TEAM": "one"} | ({variable: KEY} if variable else {})
        ended = await program.run_aside("exec", "--skip-git-repo-check", "hi", env=env)
    assert (ended.code, ended.out) == (0, "Hello.\n"), ended.err
    [request] = [each for each in model.received if each.path.startswith(PATHS[wire])]
    assert request.body["model"] == given.get("model", row.default_model if row else "")
    header = "api-key" if provider == "azure" else "x-api-key" if wire == "anthropic" else "authorization"
    assert request.headers.get(header, "").removeprefix("Bearer ") == (KEY if variable else "")
    if provider == OWN:
        assert request.headers["x-team"] == "one"
    assert header in ("authorization", *re.findall(r"sent as `([\w-]+)`", section))
