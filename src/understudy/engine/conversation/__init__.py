"""One conversation: ops come in, records go to its log, at most one turn runs.

`phases.py` holds the theory: the phases that a conversation can be in within this process, and what each input does in each phase.
`conversation.py` performs it. `shell.py` holds the effects that ops may use; the ops are in `engine/ops`. `elsewhere.py`,
`watch.py`, `letters.py` and `our_claim.py` deal with other processes that share the log.
"""
