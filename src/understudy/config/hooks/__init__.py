"""Hooks as files have them: programs that are told what happens in a conversation, and may object. Reads files, runs nothing."""
