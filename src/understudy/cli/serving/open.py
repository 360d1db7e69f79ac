"""`understudy open [ID]`: the page of the running server in a browser, logged in."""

import html
import os
import sys
import tempfile
import time
import webbrowser
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from understudy.cli.stored import open_stored
from understudy.cli.waiting import wait_for
from understudy.config.home import find_home, state_dir
from understudy.errors import BadRequest
from understudy.protocol.ids import read_uuid
from understudy.store.lookup import find_id

_PREFIX = "open-"


def run(options: Namespace) -> int:
    from understudy.config.running_server import find_running

    folder = state_dir(find_home(os.environ))
    place = ""
    if options.id is not None:
        place = f"#/c/{wait_for(lambda: _find(options.id))}"
    server = find_running(folder)
    if server is None:
        raise BadRequest("no server runs here. Start one with `understudy serve --open`")
    link = f"{server.page}/{place}" if server.no_auth else fresh_link(folder, server.page, place)
    if options.print:
        print(link)
    elif open_link(folder, link):
        print("understudy: opened in a browser. If it shows nothing, `understudy open --print` gives the link.", file=sys.stderr)
    else:
        print("understudy: there is no browser here that could be started. Open this link yourself:", file=sys.stderr)
        print(link)
    return 0


async def _find(spelled: str) -> str:
    """A whole id is taken as it is: the server may have the conversation in memory alone. Raises `BadRequest`."""
    try:
        return read_uuid(spelled)
    except ValueError:
        async with open_stored() as log:
            return await find_id(log, spelled)


def fresh_link(folder: Path, page: str, place: str = "") -> str:
    from understudy.servers.page.links import Links

    return f"{page}/login?code={Links(folder).make()}{place}"


def open_link(folder: Path, link: str) -> bool:
    """By a file that only the user can read: others can see what a program is started with. False where there is no browser."""
    _forget_old(folder)
    descriptor, path = tempfile.mkstemp(prefix=_PREFIX, suffix=".html", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        address = html.escape(link, quote=True)
        file.write(f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>understudy</title>'
                   f'<meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open the page</a>\n')  # fmt: skip
    try:
        opened = webbrowser.open(f"file://{path}")
    except webbrowser.Error:
        opened = False
    if not opened:
        os.unlink(path)
    return opened


def _forget_old(folder: Path) -> None:
    for entry in folder.glob(f"{_PREFIX}*.html"):
        with suppress(OSError):
            if time.time() - entry.stat().st_mtime > 600:
                entry.unlink()
