"""The built-in model providers, as data; the only such list. `models.providers` prepares them for requests."""

from collections.abc import Mapping
from typing import Literal

import msgspec

WireApi = Literal["chat", "responses", "anthropic"]
WIRES: tuple[WireApi, ...] = ("responses", "chat", "anthropic")

SCRIPTED = "scripted"
REPLAY = "replay"
OPENAI_URL = "https://api.openai.com/v1"


class BuiltIn(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    base_url: str  # empty: known only from the environment or a table
    default_model: str
    wire_api: WireApi = "chat"
    env_key: str | None = None
    key_header: str | None = None  # the header with the bare key; None: the wire's usual header
    address_variable: str | None = None  # the environment variable with another address
    address_suffix: str = ""  # added to that address unless it ends so
    aliases: tuple[str, ...] = ()
    stands_alone: bool = True  # a table with its own name and address inherits nothing from this row
    window_at: tuple[str, ...] = ()  # where it says how large a model's context is, tried in this order; ../ is beside /v1
    vendors: tuple[str, ...] = ()  # whose models in the price table it serves; empty: no particular vendor's


BUILT_IN = (
    BuiltIn(
        id="openai",
        name="OpenAI",
        base_url=OPENAI_URL,
        default_model="gpt-6.1-sol",
        wire_api="responses",
        address_variable="OPENAI_BASE_URL",
        stands_alone=False,
        vendors=("openai",),
    ),
    BuiltIn(
        id="azure",
        name="Azure OpenAI",
        base_url="",
        default_model="gpt-6.1-sol",  # there, a model's name is the name of your deployment
        wire_api="responses",
        env_key="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        address_variable="AZURE_OPENAI_ENDPOINT",
        address_suffix="/openai/v1",
        vendors=("openai",),
    ),
    BuiltIn(
        id="anthropic",
        name="Anthropic",
        base_url="https://api.anthropic.com/v1",
        default_model="claude-sonnet-5-5",
        wire_api="anthropic",
        env_key="ANTHROPIC_API_KEY",
        address_variable="ANTHROPIC_BASE_URL",
        address_suffix="/v1",
        vendors=("anthropic",),
    ),
    BuiltIn(
        id="openrouter",
        name="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        default_model="anthropic/claude-sonnet-5.5",
        env_key="OPENROUTER_API_KEY",
        window_at=("/models",),
    ),
    BuiltIn(
        id="gemini",
        name="Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        default_model="gemini-3.5-flash",
        env_key="GEMINI_API_KEY",
        vendors=("google",),
    ),
    BuiltIn(
        id="ollama",
        name="Ollama",
        base_url="http://localhost:11434/v1",
        default_model="gpt-oss:20b",
        address_variable="OLLAMA_HOST",
        address_suffix="/v1",
        window_at=("../api/ps",),  # it allows less context than a model could have, and reports it only for loaded models
    ),
    BuiltIn(
        id="lmstudio",
        name="LM Studio",
        base_url="http://localhost:1234/v1",
        default_model="openai/gpt-oss-20b",
        aliases=("lm-studio",),
        window_at=("../api/v0/models", "/models"),
    ),
    BuiltIn(
        id="vllm",
        name="vLLM",
        base_url="http://localhost:8000/v1",
        default_model="openai/gpt-oss-20b",
        window_at=("/models",),
    ),
    BuiltIn(
        id="llamacpp",
        name="llama.cpp",
        base_url="http://localhost:8080/v1",
        default_model="default",  # it serves one model under any name
        aliases=("llama.cpp", "llama-cpp"),
        window_at=("../props", "/models"),
    ),
    BuiltIn(
        id="oss",
        name="Open Source",
        base_url="http://localhost:11434/v1",
        default_model="gpt-oss:20b",
        address_variable="CODEX_OSS_BASE_URL",
        window_at=("../api/ps",),
        stands_alone=False,
    ),
    BuiltIn(id=SCRIPTED, name="Scripted", base_url="", default_model="scripted", stands_alone=False),
    BuiltIn(id=REPLAY, name="Replay", base_url="", default_model=REPLAY, stands_alone=False),  # replaced by the recorded model
)

UNADDRESSED = frozenset({SCRIPTED, REPLAY})  # these ask nobody

BY_ID = {row.id: row for row in BUILT_IN}
_IDS = {**{alias: row.id for row in BUILT_IN for alias in row.aliases}, **{row.id: row.id for row in BUILT_IN}}


# The default model for a provider of the user's own: that of the built-in provider with the same wire.
DEFAULT_OF_WIRE: Mapping[WireApi, str] = {
    "responses": BY_ID["openai"].default_model,
    "chat": BY_ID["openai"].default_model,
    "anthropic": BY_ID["anthropic"].default_model,
}


def built_in_id(name: str) -> str | None:
    """The id of the built-in provider with this name, if there is one."""
    return _IDS.get(name)
