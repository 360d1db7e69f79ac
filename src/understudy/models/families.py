"""What is known of models by their names alone."""

REASONING_PREFIXES = ("o3", "o4-mini", "codex-", "gpt-5")
VERBOSITY_PREFIXES = ("gpt-5",)


def reasons(model: str) -> bool:
    """Whether the provider should be asked to reason, and to summarise that."""
    return model.startswith(REASONING_PREFIXES)


def takes_verbosity(model: str) -> bool:
    return model.startswith(VERBOSITY_PREFIXES)
