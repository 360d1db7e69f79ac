"""Commands and skills on disk as an editor's slash commands."""

from collections.abc import Iterable
from typing import Protocol

from understudy.config.model import Config
from understudy.engine.setup.called import called_by, given_for
from understudy.errors import BadRequest, ConfigError
from understudy.protocol.items import ContentPart, InputText
from understudy.servers.acp.content import Json
from understudy.servers.failures import InvalidParams


class _Session(Protocol):
    def config(self) -> Config: ...
    def tell(self, updates: Iterable[Json]) -> None: ...


def tell_commands(session: _Session) -> None:
    """Tell the editor of its commands, if there are any: most sessions have none."""
    try:
        found = called_by(session.config())
    except ConfigError:
        return  # for example its folder is gone
    if found:
        commands = [
            {
                "name": each.name,
                "description": each.description or each.name,
                "input": {"hint": each.hint or "what follows the name"},
            }
            for each in found
        ]
        session.tell([{"sessionUpdate": "available_commands_update", "availableCommands": commands}])


def with_called(session: _Session, content: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """The prompt with the text of the command that its first words call. Raises `InvalidParams`."""
    first = content[0]
    if not isinstance(first, InputText) or not first.text.lstrip().startswith("/"):
        return content
    try:
        given = given_for(first.text, session.config())
    except ConfigError:
        return content  # sending the prompt reports the error
    except BadRequest as error:
        raise InvalidParams(f"Invalid params: {error}") from None
    return content if given is None else (first, given, *content[1:])
