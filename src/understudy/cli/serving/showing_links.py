"""A link as a QR code on a terminal, with the link itself below it."""

import shutil
import sys
from urllib.parse import urlsplit

from understudy.cli.serving.qr_code import as_text, qr_code
from understudy.errors import BadRequest
from understudy.servers.http.guards import is_loopback

_LIGHT_ON_DARK, _PLAIN = "\x1b[97;40m", "\x1b[0m"  # whatever the terminal's colours


def show_code(link: str) -> None:
    """Raises `BadRequest` if the link is too long for a code, or the terminal too narrow."""
    try:
        lines = as_text(qr_code(link.encode())).split("\n")
    except ValueError:
        raise BadRequest("the link is too long for a QR code: understudy open --print") from None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        if width < len(lines[0]):
            raise BadRequest(f"the code needs {len(lines[0])} columns, and the terminal has {width}: make it wider")
        lines = [f"{_LIGHT_ON_DARK}{line}{_PLAIN}" for line in lines]
    print("\n".join(lines))
    print(link)
    if is_loopback(urlsplit(link).hostname or ""):
        print(
            "understudy: this address leads to this machine alone. For a phone, serve on an address that it can reach, with TLS"
            " (--host, --tls-cert) or behind a proxy (--public-url)",
            file=sys.stderr,
        )
