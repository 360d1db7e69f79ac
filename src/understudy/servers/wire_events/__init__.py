"""Records as the events that MCP clients are shown. Each wire has a codec; `presentation.py` chooses the one for a client."""
