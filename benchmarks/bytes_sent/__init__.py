"""How many bytes agents send to the model for the same tasks: ours, codex and opencode, each over the wire it speaks."""
