"""Records as the events that MCP clients are shown. Each wire has a codec; `presentation.py` says which one a client gets."""
