"""MCP for one client, over any transport.

`dispatcher.py` finds the handler of a request in `tool_table.py` and makes what it returns or raises the one answer
(`call.py`). The `CallViewer` of a call waits for its answer, `stream_viewer.py` only watches, `task_viewer.py` watches for those
who ask again later. `modern.py` and its neighbours serve the era without a handshake.
"""
