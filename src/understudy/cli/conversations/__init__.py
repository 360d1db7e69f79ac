"""Commands about conversations that are there: list, show, search, resume, rename, undo, answer, export, import, back up,
verify.
"""
