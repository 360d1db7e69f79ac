"""`understudy hooks list`: all of them, with the reason where one does not run."""

import json
import sys
from argparse import Namespace
from typing import Any

from understudy.cli.hooks.found import config_of, hooks_of
from understudy.cli.terminal import one_line
from understudy.engine.hooks.rows import row_of


def run(options: Namespace) -> int:
    config = config_of(options)
    loaded = hooks_of(config)
    if options.json:
        rows: list[dict[str, Any]] = [row_of(each, order) for order, each in enumerate(loaded.judged)]
        print(json.dumps({"cwd": str(config.cwd), "hooks": rows, "warnings": list(loaded.problems), "errors": []}, indent=2))
        return 0
    for each in loaded.judged:
        hook = each.hook
        state = "counts" if each.counts else "switched off" if not each.enabled else each.standing
        about = f" ({hook.matcher})" if hook.matcher else ""
        print(one_line(f"{state:12} {hook.event}{about}: {hook.command}"))
        print(one_line(f"{'':12} {hook.key}"))
    if not loaded.judged:
        print("There are no hooks here.", file=sys.stderr)
    for notice in loaded.notices:
        print(one_line(notice), file=sys.stderr)
    return 0
