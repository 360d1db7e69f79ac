"""Commands that serve: `mcp-server`, `acp`, `app-server` and `proto` on standard input and output, `serve` over HTTP with its
tokens.
"""
