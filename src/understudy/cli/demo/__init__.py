"""`understudy demo`: the real server, a small MCP client, and a model that plays a script. No key, no network."""
