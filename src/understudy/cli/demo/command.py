"""`understudy demo`."""

from argparse import Namespace

from understudy.cli.demo.play import run_demo


def run(options: Namespace) -> int:
    return run_demo(ask=options.ask, wire=options.wire)
