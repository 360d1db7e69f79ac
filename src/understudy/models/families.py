"""What is known about models by their names; the only such table. Users can override it by `model_context_window` and similar
keys.
"""

from functools import lru_cache
from typing import Literal

import msgspec

Reasons = Literal["no", "effort", "adaptive", "budget"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")  # from least to most
DEFAULT_WINDOW = 128_000
DEFAULT_OUTPUT = 32_000


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask models of one kind. The defaults are for models that we do not know."""

    prefixes: tuple[str, ...] = ()
    window: int | None = None  # tokens of context; None: unknown
    output: int | None = None  # most tokens of one answer
    reasoning: Reasons = "no"  # asked for by an effort, chosen by the model within an effort, or given a number of tokens
    efforts: tuple[str, ...] = ()  # efforts that it accepts; empty: any
    verbosity: bool = False
    parallel: bool = True  # several calls in one answer
    patch: Literal["grammar", "function"] = "function"  # the form of `apply_patch`, if the wire has the choice
    eyes: bool = True
    commentary: bool = True  # we ask it to say a word before its calls; newer models do so anyway
    signs_calls: bool = False  # each call has a signature that must be sent back with it
    without: tuple[str, ...] = ()  # tools that are not offered to it; all others are

    @property
    def known(self) -> bool:
        return bool(self.prefixes)

    def effort(self, wanted: str) -> str:
        """The effort that it accepts nearest to the wanted one; the higher of two equally near."""
        if not self.efforts or wanted in self.efforts or wanted not in EFFORTS:
            return wanted
        place = EFFORTS.index(wanted)
        return min(self.efforts, key=lambda level: (abs(EFFORTS.index(level) - place), -EFFORTS.index(level)))


UNKNOWN = Family()

# Older and smaller models make wrong patches and lose track of sessions. They edit by exact text, and have more room in their
# window.
_FOR_STRONGER = ("exec_command", "write_stdin", "apply_patch")

_LOW_TO_HIGH = ("low", "medium", "high")
_TO_XHIGH = ("none", *_LOW_TO_HIGH, "xhigh")
_TO_MAX = (*_TO_XHIGH, "max")
_CLAUDE_TO_MAX = (*_LOW_TO_HIGH, "xhigh", "max")

# The longest prefix counts, so a row may be the exception to another one.
FAMILIES = (
    # OpenAI
    Family(
        prefixes=("gpt-6", "gpt-5.6", "gpt-daybreak", "gpt-rosalind"),
        window=1_050_000,
        output=128_000,
        reasoning="effort",
        efforts=_TO_MAX,
        verbosity=True,
        patch="grammar",
        commentary=False,
    ),
    Family(
        prefixes=("gpt-5.4", "gpt-5.5"),
        window=1_050_000,
        output=128_000,
        reasoning="effort",
        efforts=_TO_XHIGH,
        verbosity=True,
        patch="grammar",
        commentary=False,
    ),
    Family(
        prefixes=("gpt-5.4-mini", "gpt-5.4-nano", "gpt-5.2", "gpt-5.3-codex"),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=_TO_XHIGH,
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5.3-codex-spark",),
        window=128_000,
        output=32_000,
        reasoning="effort",
        efforts=_TO_XHIGH,
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5.4-pro", "gpt-5.5-pro"),
        window=1_050_000,
        output=128_000,
        reasoning="effort",
        efforts=("medium", "high", "xhigh"),
        verbosity=True,
        patch="grammar",
        commentary=False,
    ),
    Family(
        prefixes=("gpt-5.2-pro",),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=("medium", "high", "xhigh"),
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5.1",),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=("none", *_LOW_TO_HIGH),
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5.1-codex", "gpt-5-codex"),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=_LOW_TO_HIGH,
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5.1-codex-max", "gpt-5.2-codex"),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=(*_LOW_TO_HIGH, "xhigh"),
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5",),
        window=400_000,
        output=128_000,
        reasoning="effort",
        efforts=("minimal", *_LOW_TO_HIGH),
        verbosity=True,
        patch="grammar",
    ),
    Family(
        prefixes=("gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"),
        window=128_000,
        output=16_384,
        patch="function",
    ),
    Family(prefixes=("codex-",), window=200_000, output=100_000, reasoning="effort", efforts=_LOW_TO_HIGH),
    Family(prefixes=("o1", "o3", "o4-mini"), window=200_000, output=100_000, reasoning="effort", efforts=_LOW_TO_HIGH),
    Family(prefixes=("o3-mini",), window=200_000, output=100_000, reasoning="effort", efforts=_LOW_TO_HIGH, eyes=False),
    Family(prefixes=("o1-mini", "o1-preview"), window=128_000, output=32_768, eyes=False),
    Family(prefixes=("gpt-4.1",), window=1_047_576, output=32_768),
    Family(prefixes=("gpt-4o", "gpt-4-turbo"), window=128_000, output=16_384),
    Family(prefixes=("gpt-4",), window=8_192, output=8_192, eyes=False, without=_FOR_STRONGER),
    Family(prefixes=("gpt-3.5",), window=16_385, output=4_096, eyes=False, without=_FOR_STRONGER),
    Family(prefixes=("gpt-oss",), window=131_072, output=32_768, reasoning="effort", efforts=_LOW_TO_HIGH, eyes=False),
    # Anthropic
    Family(
        prefixes=("claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-fable-5", "claude-mythos", "claude-"),
        window=1_000_000,
        output=128_000,
        reasoning="adaptive",
        efforts=_CLAUDE_TO_MAX,
        commentary=False,
    ),
    Family(
        prefixes=("claude-opus-4-7", "claude-opus-4-8"),
        window=1_000_000,
        output=128_000,
        reasoning="adaptive",
        efforts=_CLAUDE_TO_MAX,
        commentary=False,
    ),
    Family(
        prefixes=("claude-opus-4-6",),
        window=1_000_000,
        output=128_000,
        reasoning="adaptive",
        efforts=(*_LOW_TO_HIGH, "max"),
    ),
    Family(
        prefixes=("claude-sonnet-4-6",),
        window=1_000_000,
        output=64_000,
        reasoning="adaptive",
        efforts=(*_LOW_TO_HIGH, "max"),
    ),
    Family(prefixes=("claude-opus-4-5", "claude-haiku-4", "claude-sonnet-4"), window=200_000, output=64_000, reasoning="budget"),
    Family(prefixes=("claude-opus-4", "claude-opus-4-1"), window=200_000, output=32_000, reasoning="budget"),
    Family(prefixes=("claude-3-7",), window=200_000, output=64_000, reasoning="budget"),
    Family(prefixes=("claude-3-5",), window=200_000, output=8_192),
    Family(prefixes=("claude-3",), window=200_000, output=4_096),
    # Google
    Family(
        prefixes=("gemini-", "gemini-3"),
        window=1_048_576,
        output=65_536,
        reasoning="effort",
        efforts=("minimal", *_LOW_TO_HIGH),
        signs_calls=True,
    ),
    Family(
        prefixes=("gemini-3-pro", "gemini-3.1-pro"),
        window=1_048_576,
        output=65_536,
        reasoning="effort",
        efforts=_LOW_TO_HIGH,
        signs_calls=True,
    ),
    Family(prefixes=("gemini-2.5", "gemini-flash", "gemini-pro"), window=1_048_576, output=65_536, reasoning="effort"),
    Family(prefixes=("gemini-2.0", "gemini-1.5"), window=1_048_576, output=8_192),
    Family(prefixes=("gemma-4",), window=262_144, output=32_768),
    # others, mostly with open weights
    Family(prefixes=("deepseek-",), window=1_000_000, output=384_000, reasoning="effort", efforts=("high", "max"), eyes=False),
    Family(prefixes=("deepseek-r1", "deepseek-v3", "deepseek-coder"), window=131_072, output=32_768, eyes=False),
    Family(prefixes=("grok-",), window=1_000_000, output=30_000, reasoning="effort", efforts=("none", *_LOW_TO_HIGH)),
    Family(prefixes=("grok-build", "grok-code"), window=256_000, output=256_000),
    Family(prefixes=("kimi-",), window=262_144, output=262_144),
    Family(prefixes=("kimi-k2-",), window=262_144, output=262_144, eyes=False),
    Family(prefixes=("glm-",), window=200_000, output=131_072, eyes=False),
    Family(prefixes=("glm-4.5",), window=131_072, output=98_304, eyes=False),
    Family(prefixes=("glm-5v", "glm-4.6v"), window=128_000, output=32_768),
    Family(prefixes=("qwen3.", "qwen3-max", "qwen3-coder-plus", "qwen3-coder-flash"), window=1_000_000, output=65_536),
    Family(prefixes=("qwen3",), window=262_144, output=65_536, eyes=False),
    Family(prefixes=("qwen2.5", "qwen2-5"), window=131_072, output=8_192, eyes=False, without=_FOR_STRONGER),
    Family(prefixes=("devstral", "codestral"), window=262_144, output=65_536, eyes=False),
    Family(prefixes=("mistral-large", "mistral-medium", "mistral-small"), window=262_144, output=65_536),
    Family(prefixes=("llama-4", "llama4"), window=1_048_576, output=16_384),
    Family(prefixes=("llama-3", "llama3"), window=131_072, output=8_192, eyes=False, without=_FOR_STRONGER),
)
_PREFIXES = {prefix: family for family in FAMILIES for prefix in family.prefixes}


@lru_cache(maxsize=64)
def family_of(model: str) -> Family:
    """By the longest prefix, whatever a provider adds in front (`openai/`, `models/`, `us.anthropic.`), in any spelling."""
    name = plain_name(model)
    known = [prefix for prefix in _PREFIXES if name.startswith(prefix)]
    return _PREFIXES[max(known, key=len)] if known else UNKNOWN


def plain_name(model: str) -> str:
    """The name in lower case, without what the provider adds in front; Claude's versions with hyphens."""
    name = model.strip().lower().rpartition("/")[2]
    name = name.rpartition("anthropic.")[2] or name
    return name.replace(".", "-") if name.startswith("claude-") else name


def context_window(model: str, configured: int | None = None) -> int:
    """The user's value, else the table's, else a size that most models have."""
    return configured or family_of(model).window or DEFAULT_WINDOW


def output_limit(model: str) -> int:
    return family_of(model).output or DEFAULT_OUTPUT
