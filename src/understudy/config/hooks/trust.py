"""Which hooks of folders the user trusts, each by a digest of its entry and of what its command depends on."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from understudy.config.private_file import PrivateFile
from understudy.errors import ConfigError


class HookTrust(msgspec.Struct, frozen=True):
    """`hooks.json` of our state folder."""

    file: Path

    def read(self) -> dict[str, str]:
        content = PrivateFile(self.file).read()
        if content is None:
            return {}
        trusted = content.get("trusted")
        if not isinstance(trusted, dict):
            raise ConfigError(f'{self.file} is not understood. Expected {{"trusted": {{KEY: DIGEST}}}}; remove it to trust no hook')
        return {str(key): str(digest) for key, digest in cast(dict[object, object], trusted).items()}

    def trust(self, digests: Mapping[str, str]) -> None:
        """These, as they are now."""
        with PrivateFile(self.file).locked():
            PrivateFile(self.file).write({"trusted": dict(sorted({**self.read(), **digests}.items()))})

    def distrust(self, keys: frozenset[str]) -> None:
        with PrivateFile(self.file).locked():
            PrivateFile(self.file).write({"trusted": {key: digest for key, digest in self.read().items() if key not in keys}})
