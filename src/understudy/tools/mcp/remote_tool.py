"""What other MCP servers offer, as data; also usable without the extra `mcp`."""

from typing import Any

import msgspec

RESOURCE_METHODS = {
    "list_mcp_resources": "resources/list",
    "list_mcp_resource_templates": "resources/templates/list",
    "read_mcp_resource": "resources/read",
}


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it, cleaned."""

    server: str
    name: str  # the server's own name for it
    description: str
    parameters: dict[str, Any]
    hints: tuple[str, ...] = ()  # what the server says about it, for people
    read_only: bool = False

    @property
    def definition(self) -> str:
        return msgspec.json.encode((self.description, self.parameters, self.hints)).decode()
