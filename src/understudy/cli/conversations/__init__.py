"""Commands about existing conversations: list, show, search, resume, rename, undo, answer, export, import, back up, verify."""
