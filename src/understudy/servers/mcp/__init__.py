"""MCP for one client, over any transport.

`dispatcher.py` finds a request's handler in `tool_table.py` and turns what it returns or raises into the one answer (`call.py`).
The `CallViewer` of a call waits for its answer, `stream_viewer.py` only watches, and `task_viewer.py` watches for clients that ask
again later. `modern.py` and its neighbours serve the era without a handshake.
"""
