"""HTTP, whatever is served: requests (`asked.py`), answers, streams of events, guards, principals and tokens, limits, metrics, and
browsers that have logged in.

Nothing here knows MCP over HTTP, REST or the page.
"""
