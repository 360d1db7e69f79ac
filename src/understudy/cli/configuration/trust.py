"""`understudy trust`: which folders' own files may change how we work."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from understudy.cli.parsing import wrong_usage
from understudy.cli.tell.terminal import one_line
from understudy.config.home import find_home, state_dir
from understudy.config.project import read_project_layer
from understudy.config.trust import OWN_FILES, TrustStore
from understudy.engine.hooks.loading import distrust_folder, trust_folder
from understudy.errors import BadRequest


def run(options: Namespace) -> int:
    store = TrustStore(state_dir(find_home(os.environ)) / "trust.json")
    if options.list:
        for folder in store.folders():
            standing = store.standing(Path(folder))
            print(
                one_line(folder) + ("" if standing == "trusted" else "  (its files have changed since; it is not trusted any more)")
            )
        return 0
    if options.folder is None:
        wrong_usage("name the folder: understudy trust DIR, or understudy trust --list")
    folder = Path(options.folder)
    if options.remove:
        if not store.distrust(folder):
            raise BadRequest(f"{folder} was not trusted")
        distrust_folder(Path(os.path.realpath(folder)), find_home(os.environ))
        print(f"not trusted any more: {one_line(str(folder))}")
        return 0
    real = store.trust(folder)
    layer = read_project_layer(real, find_home(os.environ), {})
    for warning in layer.warnings:
        print(one_line(warning), file=sys.stderr)
    for name, server in layer.servers.items():
        words = " ".join([str(server.get("command") or server.get("url")), *server.get("args", ())])
        print(one_line(f"its MCP server `{name}` counts now, and runs outside the sandbox: {words}"), file=sys.stderr)
    for hook in trust_folder(real, find_home(os.environ), os.environ):
        print(one_line(f"its hook for {hook.event} counts now, and runs in the sandbox: {hook.command}"), file=sys.stderr)
    there = [name for name in OWN_FILES if (real / name).exists()]
    print(f"trusted: {one_line(str(real))} ({', '.join(there) or 'none of ' + ', '.join(OWN_FILES) + ' is there'})")
    print("If these files change, or one is added, it is not trusted any more until you trust it again.", file=sys.stderr)
    return 0
