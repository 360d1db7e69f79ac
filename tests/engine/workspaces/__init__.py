"""Keeping and making workspaces, with real git."""
