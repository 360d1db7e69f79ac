"""Profiles: settings under a name, as a table `[profiles.NAME]` of config.toml or as a file `NAME.config.toml` beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from understudy.config.file import ConfigFile, read_config_file
from understudy.config.overrides import merge
from understudy.config.schema import Tree
from understudy.config.slips import Slip
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides

FILE_SUFFIX = ".config.toml"


class Profile(msgspec.Struct, frozen=True):
    name: str | None
    tree: Tree
    file: Path | None = None  # where it has one of its own
    slips: tuple[Slip, ...] = ()  # of that file

    def place(self, user_file: Path) -> str:
        return f"profile `{self.name}` in {self.file or user_file}"


def choose_profile(overrides: Overrides, laid_over: Tree, file: ConfigFile) -> Profile:
    """The one that is named. Where there are both forms, the file goes over the table. Raises `ConfigError`."""
    name = overrides.profile
    if name is None:
        name = laid_over.get("profile")
        if name is not None and not isinstance(name, str):
            raise ConfigError(f"invalid type in `profile`: it should be the name of a table under [profiles] in {file.path}")
    if not name:
        return Profile(None, {})
    profiles = laid_over.get("profiles")
    found: object = cast(Tree, profiles).get(name) if isinstance(profiles, Mapping) else None
    table = cast(Tree, found) if isinstance(found, Mapping) else None
    own = _own_file(name, file.path.parent)
    if own is not None:
        return Profile(name, merge(table or {}, own.tree), own.path, own.slips)
    if table is None:
        there = ", ".join(f"`{known}`" for known in cast(Tree, profiles)) if isinstance(profiles, Mapping) else ""
        hint = f"Profiles there: {there}." if there else "It has none."
        raise ConfigError(f"config profile `{name}` not found\nProfiles are the tables [profiles.NAME] of {file.path}. {hint}")
    return Profile(name, table)


def _own_file(name: str, home: Path) -> ConfigFile | None:
    if "/" in name or "\0" in name or name.startswith("."):
        return None
    path = home / f"{name}{FILE_SUFFIX}"
    return read_config_file(home, path.name) if path.is_file() else None
