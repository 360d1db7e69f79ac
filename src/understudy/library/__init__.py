"""The agent as a library: `from understudy import Understudy`.

`agent.py` is what users hold. It asks a `Backend` for everything: `local.py` has the engine in this process, `remote.py` a server
by its address. Both speak the items of `servers/items`, so what a program sees does not depend on where the agent runs.
`understudy.sync` is the same without async.
"""
