"""HTTP without knowing who is served: requests as read (`asked.py`), answers, streams of events, guards, principals and tokens,
limits, metrics, browsers that have logged in.

Neither MCP over HTTP nor REST nor the page is known here.
"""
