"""One conversation: ops come in, records go to its log, at most one turn runs.

`phases.py` holds the theory: in which phase a conversation is in this process, and what each input makes of it.
`conversation.py` performs that. `shell.py` holds the effects that ops have, which are in `engine/ops`; `elsewhere.py`,
`watch.py`, `letters.py` and `our_claim.py` are about other processes that have the same log.
"""
