"""How fast servers of the `codex` tool are: measured from outside, over stdio, against a scripted model."""
