"""The agent as a library: `from understudy import Understudy`.

Programs hold what `agent.py` defines. That asks a `Backend` for everything: `local.py` runs the engine in this process, `remote.py`
asks a server by its address. Both use the items of `servers/items`, so a program sees the same wherever the agent runs.
`understudy.sync` is the same without async.
"""
