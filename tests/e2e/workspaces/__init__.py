"""Workspaces that are made for a conversation, with real git and the real program."""
