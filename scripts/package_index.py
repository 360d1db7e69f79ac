"""Where packages come from on this machine, as uv and pip are configured to find them: neither of the two has to be there.

What is read: the variables and files of both, uv's before pip's. Without any, packages come from PyPI.
"""

import configparser
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PackageIndex:
    url: str | None = None  # None: PyPI
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()  # folders, pages
    no_index: bool = False
    certificates: str | None = None
    proxy: str | None = None
    trusted_hosts: tuple[str, ...] = ()
    timeout: float = 30.0

    def for_uv(self) -> dict[str, str]:
        """What uv is told by its environment, where credentials in an address are seen by nobody else."""
        told = {
            "UV_DEFAULT_INDEX": self.url,
            "UV_EXTRA_INDEX_URL": " ".join(self.extra),
            "UV_FIND_LINKS": ",".join(self.find_links),
            "UV_NO_INDEX": "1" if self.no_index else None,
            "UV_INSECURE_HOST": " ".join(self.trusted_hosts),
            "UV_INDEX_STRATEGY": "unsafe-best-match" if self.extra or self.find_links else None,  # as pip chooses
            "SSL_CERT_FILE": self.certificates,
            "HTTPS_PROXY": self.proxy,
            "HTTP_PROXY": self.proxy,
        }
        return {name: value for name, value in told.items() if value and name not in os.environ}


def configured() -> PackageIndex:
    env = os.environ
    pip, uv = _pip_options(env), _uv_options(env)
    timeout = pip.get("timeout") or pip.get("default-timeout") or ""
    uv_extra = _words(env.get("UV_INDEX", "")) + _words(env.get("UV_EXTRA_INDEX_URL", ""))
    uv_links = _words(env.get("UV_FIND_LINKS", "").replace(",", " "))
    return PackageIndex(
        url=env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or uv.url or pip.get("index-url"),
        extra=(*uv_extra, *uv.extra, *_words(pip.get("extra-index-url", ""))),
        find_links=(*uv_links, *uv.find_links, *_words(pip.get("find-links", ""))),
        no_index=_is_true(env.get("UV_NO_INDEX", "")) or _is_true(pip.get("no-index", "")),
        certificates=env.get("SSL_CERT_FILE") or pip.get("cert"),
        proxy=pip.get("proxy"),
        trusted_hosts=tuple(_words(pip.get("trusted-host", ""))),
        timeout=float(timeout) if timeout.replace(".", "", 1).isdigit() else PackageIndex.timeout,
    )


def _words(text: str) -> list[str]:
    """Addresses that stand side by side or in lines; uv's may have a name in front (`name=https://…`)."""
    words = text.split()
    return [word.split("=", 1)[1] if "=" in word.split(":", 1)[0] else word for word in words]


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y", "t")


# -- pip


def _pip_options(env: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for file in _pip_files(env):
        read = configparser.RawConfigParser(strict=False)
        try:
            read.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            print(f"set-up: {file} is left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        for section in ("global", "install"):
            if read.has_section(section):
                options.update({name.replace("_", "-"): value or "" for name, value in read.items(section)})
    for name, value in env.items():
        if name.startswith("PIP_"):
            options[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return options


def _pip_files(env: Mapping[str, str]) -> list[Path]:
    """What comes later wins."""
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(os.path.expanduser("~"))
    folders = [Path(folder) for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    system = [folder / "pip" / "pip.conf" for folder in reversed(folders)] + [Path("/etc/pip.conf")]
    user = [home / ".pip" / "pip.conf", Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"]
    if sys.platform == "darwin":
        system.insert(0, Path("/Library/Application Support/pip/pip.conf"))
        user.append(home / "Library" / "Application Support" / "pip" / "pip.conf")
    return [*system, *user, Path(sys.prefix) / "pip.conf", *([Path(named)] if named else [])]


# -- uv


def _uv_options(env: Mapping[str, str]) -> PackageIndex:
    url, extra, find_links = None, [], []
    home = Path(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    named = env.get("UV_CONFIG_FILE")
    for file in [Path(named)] if named else [home / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]:
        try:
            read = tomllib.loads(file.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            print(f"set-up: {file} is left out: {error}", file=sys.stderr)
            continue
        for index in read.get("index", []):
            if index.get("default"):
                url = url or index.get("url")
            elif not index.get("explicit"):
                extra.append(index.get("url", ""))
        url = url or read.get("index-url")
        extra += read.get("extra-index-url", [])
        find_links += read.get("find-links", [])
    return PackageIndex(url=url, extra=tuple(filter(None, extra)), find_links=tuple(find_links))
