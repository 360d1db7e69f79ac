"""`understudy app-server --listen ws://IP:PORT`: the app server over WebSockets."""

import ipaddress
import re
import sys
from argparse import Namespace
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from understudy.cli.parsing import wrong_usage
from understudy.cli.settings import read_overrides
from understudy.config.tokens import read_private
from understudy.errors import ConfigError
from understudy.servers.app_server.listening import OnPort, OnSocket, Where
from understudy.servers.app_server.listening import run as serve

_HASH = re.compile(r"[0-9a-fA-F]{64}")


def run(options: Namespace) -> int:
    url: str = options.listen
    token_hash = _token_hash(options)
    if url.startswith("unix://"):
        where: Where = OnSocket(_socket_path(url))
    else:
        host, port = _place(url)
        if token_hash is None and not ipaddress.ip_address(host).is_loopback:
            raise ConfigError(f"others can reach {host}: ask them for a token with --ws-auth capability-token")
        where = OnPort(host, port)
    return serve(where, token_hash, read_overrides(options), _announce)


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = str(ipaddress.ip_address(parts.hostname or ""))
    except ValueError:
        port, host, parts = None, "", None
    if parts is None or port is None or parts.scheme != "ws" or parts.path not in ("", "/") or parts.query or parts.username:
        wrong_usage(
            f"--listen {url}: it can be stdio://, ws://IP:PORT (such as ws://127.0.0.1:4500; port 0: any that is free) or unix://PATH"
        )
    return host, port


def _socket_path(url: str) -> Path:
    path = url.removeprefix("unix://")
    if not path or "\0" in path:
        wrong_usage(f"--listen {url}: name the socket, as in unix:///run/user/1000/understudy.sock")
    return Path.cwd() / path


def _token_hash(options: Namespace) -> str | None:
    given = [name for name in ("ws_token_file", "ws_token_sha256") if getattr(options, name)]
    if options.ws_auth is None:
        if given:
            wrong_usage(f"--{given[0].replace('_', '-')} goes with --ws-auth capability-token")
        return None
    if len(given) != 1:
        wrong_usage("--ws-auth capability-token needs either --ws-token-file or --ws-token-sha256")
    if options.ws_token_sha256:
        if not _HASH.fullmatch(options.ws_token_sha256):
            wrong_usage("--ws-token-sha256 should be 64 hexadecimal digits")
        return options.ws_token_sha256.lower()
    path = Path.cwd() / options.ws_token_file
    try:
        token = read_private(path).strip()
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}: --ws-token-file names the one that has the token") from None
    if len(token) < 16:
        raise ConfigError(f"{path} should have a token of at least 16 characters")
    return sha256(token).hexdigest()


def _announce(address: str) -> None:
    """On standard error, as codex does: some programs read it there."""
    lines = ["understudy app-server (WebSockets)", f"  listening on: {address}"]
    if address.startswith("ws:"):
        http = address.replace("ws:", "http:", 1)
        lines += [f"  readyz: {http}/readyz", f"  healthz: {http}/healthz"]
    print("\n".join(lines), file=sys.stderr, flush=True)
