"""Conversations and their turns. A front end reaches them only through a `Handle` (`handle.py`): with it, it submits ops in the
name of a caller and follows the log.

`Engine` holds the conversations of a process and what they share; `caller_limits.py` says what a caller may choose. The rooms:
`log` (records and the state computed from them), `viewers` (those who watch), `turn` (one turn), `conversation` (ops and phases),
`setup` (from configuration to a turn), `compaction`, `activity` (what people and programs are shown), `services` (around the
engine).
"""
