"""The live end of one log, and the state computed from it.

`Tail` numbers records and waits for the disk; `Broadcast` shows everyone the same order. `State` (`fold.py`) is the fold over the
records, with its parts in `facts.py`, `history.py` (what the model is sent) and `ledger.py` (what was used and done).
`unfinished_text.py` handles incomplete items, `recovery.py` closes what a crash cut off, and `durable.py` tells when something will
survive a crash.
"""
