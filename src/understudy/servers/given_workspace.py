"""The argument `workspace`: which files a new conversation is about, and where they come from."""

from typing import Annotated, Any, Literal, cast

import msgspec

from understudy.errors import InvalidArguments
from understudy.protocol.records import Workspace

MOST_COMMANDS = 20
MOST_CHARACTERS = 4096

_Text = Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)]
_Command = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_CHARACTERS)]


class GivenWorkspace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`folder`: one that is there; `volume`: one that can be attached to another host; `git`: a clone that is made for it."""

    kind: Literal["folder", "volume", "git"]
    path: _Text = ""
    url: _Text = ""
    commit: _Text = ""
    setup: Annotated[tuple[_Command, ...], msgspec.Meta(max_length=MOST_COMMANDS)] = ()

    def workspace(self) -> Workspace:
        """Raises `InvalidArguments` for text that no log can hold."""
        for text in (self.path, self.url, self.commit, *self.setup):
            if "\0" in text:
                raise InvalidArguments("invalid value: a NUL character\nin `workspace`")
        return Workspace(self.kind, self.path, self.url, self.commit, self.setup)


def check_workspace(value: object) -> str | None:
    try:
        read_workspace(value)
    except InvalidArguments as error:
        return str(error).partition("\nin ")[0]
    return None


def read_workspace(value: object) -> Workspace:
    """Raises `InvalidArguments`."""
    if isinstance(value, dict):
        value = {name: given for name, given in cast(dict[str, Any], value).items() if given is not None}
    try:
        return msgspec.convert(value, GivenWorkspace).workspace()
    except msgspec.ValidationError as error:
        raise InvalidArguments(f"{error}\nin `workspace`") from None
