"""A simulated world: the real engine, unchanged, under every schedule that a seed can make.

Several processes (`process.py`, each a real `Engine`) share one simulated disk (`disk.py`, `log.py`). Models and commands are
simulated behind their interfaces, clients (`clients.py`) come and go as front doors do, and time is virtual (`loop.py`). A plan
(`plan.py`) says what clients and misfortunes do when: it is drawn from a seed, is played (`world.py`), and can be written as JSON
and made shorter (`playing.py`). What each client was shown and told is kept (`history.py`), and rules that know nothing of the
engine hold it against the log (`rules.py`).

Order: within one process callbacks run in the order in which they were handed to its loop, as asyncio promises. Everything else
is open: which process runs, after which callback another one does, when timers fire, and in which order the answers of disk,
models, commands and clients come in. Each of these draws from a random source of its own, so that leaving out one step of a plan
changes little else.

Not simulated: patches and undo of them, commands that outlive their turns, slow clients, other MCP servers, and the front doors.
"""
