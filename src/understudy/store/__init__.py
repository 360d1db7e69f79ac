"""The log of all conversations, behind `EventLog` and `Store` (`log.py`).

`opening.py` opens the one that is configured, and nobody outside knows which. What writes is queued, what reads is
awaited; a claim can be lost, and hints that another process has written may be late or missing. `chain.py` links and
seals records, `audit.py` follows the chain, `memory.py` keeps what nobody keeps, `transfer.py` and `rollout.py` are
files that people carry.
"""
