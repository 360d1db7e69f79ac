"""The live end of one log, and what follows from it.

`Tail` numbers records and waits for the disk, `Broadcast` shows everyone the same order; `State` (`fold.py`) is the
fold over the records, with its parts in `facts.py`, `history.py` (what the model is sent) and `ledger.py` (what was
used and done). `unfinished_text.py` is of items that are not complete, `recovery.py` closes what a crash cut off,
`durable.py` says when something survives one.
"""
