"""MCP over HTTP: the era with sessions, whose streams can be left and resumed, and the era in which each POST stands alone."""
