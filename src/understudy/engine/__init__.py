"""Conversations and the turns in them, behind `Handle` (`handle.py`), which is all that a front end holds: it submits ops in the
name of a caller and follows the log.

`Engine` has the conversations of a process and what they share; `caller_limits.py` says what a caller may choose. The
rooms: `log` (records and what follows from them), `viewers` (those who watch), `turn` (one turn), `conversation` (ops
and phases), `setup` (from configuration to a turn), `compaction`, `activity` (what people and programs are shown),
`services` (around the engine).
"""
