"""The version of codex whose commands, events and protocols ours are compatible with."""

CODEX_VERSION = "0.166.0"
