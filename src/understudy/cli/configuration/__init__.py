"""Commands about the configuration: `config`, `trust`, `hooks`, `login`, `model`, and the user's own MCP servers."""
