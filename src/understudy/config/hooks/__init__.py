"""Hooks in files: programs that are told what happens in a conversation, and may object. Only reads files; runs nothing."""
