"""A tool of another MCP server, as data: hooks are told of it where the extra `mcp` is not installed, too."""

from typing import Any

import msgspec


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it, cleaned."""

    server: str
    name: str  # as the server has it
    description: str
    parameters: dict[str, Any]
    hints: tuple[str, ...] = ()  # what the server says of it, for people
    read_only: bool = False

    @property
    def definition(self) -> str:
        return msgspec.json.encode((self.description, self.parameters, self.hints)).decode()
