"""`python -m benchmarks`: ours alone; `compare`: side by side with the peers; `growth`: how our costs grow;
`bytes`: what is sent to the model, beside codex and opencode; `programs`: whole tasks and app servers, beside today's agents;
`profile`: where our time goes; `plots`: the pictures and tables of docs/performance.md."""

import argparse
import shlex
import sys
import time
from pathlib import Path

from benchmarks.bytes_sent.agents import codex, opencode
from benchmarks.bytes_sent.agents import ours as our_agent
from benchmarks.bytes_sent.run import run_bytes
from benchmarks.growth.run import CURVES, run_growth
from benchmarks.measures import MEASURES
from benchmarks.model.process import REPOSITORY, Model, measure_ceiling
from benchmarks.peers import (
    LAST_VERSION,
    OPENCODE_VERSION,
    default_folder,
    find_exec_peers,
    find_last_codex,
    find_opencode,
    find_peers,
)
from benchmarks.plots import draw
from benchmarks.profiling.run import KINDS, run_profiles
from benchmarks.report import machine, print_report, save
from benchmarks.run import run_interleaved
from benchmarks.servers import ServerSpec, ours
from benchmarks.whole_tasks.agents import all_agents
from benchmarks.whole_tasks.app_servers import app_servers
from benchmarks.whole_tasks.run import run_programs

RESULTS = REPOSITORY / "benchmarks" / "results"


def main() -> int:
    options = _parser().parse_args()
    return options.act(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    _add_run_options(parser)
    parser.set_defaults(act=_run_ours)
    commands = parser.add_subparsers(metavar="COMMAND")
    compare = commands.add_parser("compare", help="side by side with codex 0.20.0 and 0.153.4, installed from npm")
    _add_run_options(compare)
    compare.add_argument("--peers", type=Path, default=default_folder(), help="where the peers are, or are put (%(default)s)")
    compare.set_defaults(act=_run_compared)
    growth = commands.add_parser("growth", help="how costs grow: history, sessions, stored conversations, viewers, a slow disk")
    growth.add_argument("--only", action="append", metavar="CURVE", choices=list(CURVES))
    _add_common_options(growth)
    growth.set_defaults(act=_run_growth)
    profile = commands.add_parser("profile", help="where our time goes: at the start, while streaming, with many sessions")
    profile.add_argument("--only", action="append", metavar="KIND", choices=KINDS)
    profile.add_argument("--py-spy", metavar="PROGRAM", help="draws the flame graphs (py-spy on the PATH)")
    profile.add_argument("--flames", type=Path, default=RESULTS, metavar="FOLDER", help="where the flame graphs go (%(default)s)")
    _add_common_options(profile)
    profile.set_defaults(act=_run_profiles)
    sent = commands.add_parser("bytes", help="bytes sent to the model for the same tasks, beside codex and opencode from npm")
    sent.add_argument("--peers", type=Path, default=default_folder(), help="where the peers are, or are put (%(default)s)")
    sent.add_argument("--json", type=Path, metavar="FILE", help="where the samples go (a new file under benchmarks/results)")
    sent.set_defaults(act=_run_bytes)
    programs = commands.add_parser("programs", help="whole tasks and app servers, beside codex, Claude Code and opencode from npm")
    programs.add_argument("--peers", type=Path, default=default_folder(), help="where the peers are, or are put (%(default)s)")
    programs.add_argument("--repetitions", type=int, default=7, metavar="N", help="that count, of each (%(default)s)")
    programs.add_argument("--json", type=Path, metavar="FILE", help="where the samples go (a new file under benchmarks/results)")
    programs.set_defaults(act=_run_programs)
    plots = commands.add_parser("plots", help="draw docs/performance from saved samples")
    plots.add_argument("--compare", type=Path, metavar="FILE", help="samples of a comparison (the newest)")
    plots.add_argument("--growth", type=Path, metavar="FILE", help="samples of the growth curves (the newest)")
    plots.set_defaults(act=_draw)
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="MEASURE", choices=[measure.name for measure in MEASURES])
    parser.add_argument("--repetitions", type=int, metavar="N", help="of every measure, instead of its own number")
    _add_common_options(parser)


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="do each thing X times as often (0.1 for a quick look)"
    )
    parser.add_argument(
        "--server",
        action="append",
        metavar="[NAME=]COMMAND",
        help="measure this program in place of the one installed here; several are compared with each other",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the samples go (a new file under benchmarks/results)")


def _run_growth(options: argparse.Namespace) -> int:
    return run_growth(_ours(options)[0], options.only or list(CURVES), options.scale, _results_file(options, "growth"))


def _run_profiles(options: argparse.Namespace) -> int:
    return run_profiles(_ours(options)[0], options.only or list(KINDS), options.scale, options.py_spy, options.flames)


def _run_bytes(options: argparse.Namespace) -> int:
    try:
        theirs = codex(find_last_codex(options.peers), LAST_VERSION), opencode(find_opencode(options.peers), OPENCODE_VERSION)
    except RuntimeError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return run_bytes([theirs[0], our_agent("responses"), theirs[1], our_agent("chat")], _results_file(options, "bytes"))


def _run_programs(options: argparse.Namespace) -> int:
    try:
        agents, servers = all_agents(options.peers), app_servers(options.peers)
    except RuntimeError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return run_programs(agents, servers, options.repetitions, _results_file(options, "programs"))


def _draw(options: argparse.Namespace) -> int:
    for path in draw(options.compare or _newest("compare"), options.growth or _newest("growth")):
        print(path)
    return 0


def _newest(kind: str) -> Path | None:
    return max(RESULTS.glob(f"{kind}-*.json"), default=None)


def _run_ours(options: argparse.Namespace) -> int:
    return _run(options, [])


def _run_compared(options: argparse.Namespace) -> int:
    try:
        peers = find_exec_peers(options.peers) if options.only == ["exec"] else find_peers(options.peers)
    except RuntimeError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return _run(options, peers)


def _run(options: argparse.Namespace, peers: list[ServerSpec]) -> int:
    wanted = options.only or [measure.name for measure in MEASURES if not peers or measure.name != "exec"]  # it has its own peer
    chosen = [measure for measure in MEASURES if measure.name in wanted]
    before = machine()
    with Model() as model:
        ceiling = measure_ceiling(model)
        specs = [*peers, *_ours(options)]
        results = run_interleaved(specs, chosen, model, repetitions=options.repetitions, scale=options.scale)
    path = _results_file(options, "compare" if peers else "bench")
    save(path, results, before, ceiling)
    print_report(results, before, ceiling)
    print(f"\nsamples: {path}")
    return 1 if results.failures else 0


def _ours(options: argparse.Namespace) -> list[ServerSpec]:
    """The last one is ours in the table; those before it are what it is compared with."""
    found: list[ServerSpec] = []
    for text in options.server or ():
        name, named, command = text.partition("=")
        found.append(ours(tuple(shlex.split(command)), name) if named and " " not in name else ours(tuple(shlex.split(text))))
    return found or [ours()]


def _results_file(options: argparse.Namespace, kind: str) -> Path:
    return options.json or RESULTS / time.strftime(f"{kind}-%Y%m%d-%H%M%S.json")


if __name__ == "__main__":
    sys.exit(main())
