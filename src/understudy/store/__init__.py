"""The log of all conversations, behind `EventLog` and `Store` (`log.py`).

`opening.py` opens the store that is configured; callers do not know which kind it is. Writes are queued, reads are awaited.
A claim can be lost, and hints that another process has written may be late or missing. `chain.py` links and seals records,
`audit.py` checks the chain, `memory.py` keeps conversations that are not stored, `transfer.py` and `rollout.py` read and
write files for export and import.
"""
