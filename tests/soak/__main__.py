"""`python -m tests.soak schedules --count 500`, `kills --count 1000`, `harms --count 300`, `disk-faults --count 300`,
`children --count 300`, `network-faults --count 300` or `replacements --count 2000`.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from tests.soak.runs import run_schedules


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "what", choices=["schedules", "kills", "harms", "disk-faults", "children", "network-faults", "replacements"]
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first; the others follow")
    parser.add_argument("--at-once", type=int, default=3)
    options = parser.parse_args()
    started = time.monotonic()

    def report(done: int) -> None:
        if done % 25 == 0 or done == options.count:
            print(f"{done} of {options.count} {options.what}, {time.monotonic() - started:.0f} s", flush=True)

    print(f"{options.count} {options.what} from seed {options.seed}", flush=True)
    if options.what == "schedules":
        asyncio.run(run_schedules(options.seed, options.count, at_once=options.at_once, report=report))
    elif options.what == "harms":
        from tests.soak.harms import run_harms

        asyncio.run(run_harms(options.seed, options.count, at_once=options.at_once, report=report))
    elif options.what == "disk-faults":
        from tests.soak.disk_faults import run_disk_faults

        asyncio.run(run_disk_faults(options.seed, options.count, at_once=options.at_once, report=report))
    elif options.what == "children":
        from tests.soak.child_kills import run_child_kills

        asyncio.run(run_child_kills(options.seed, options.count, at_once=options.at_once, report=report))
    elif options.what == "network-faults":
        from tests.soak.network_faults import run_network_faults

        asyncio.run(run_network_faults(options.seed, options.count, at_once=options.at_once, report=report))
    elif options.what == "replacements":
        from tests.soak.replacements import run_replacements

        asyncio.run(run_replacements(options.seed, options.count, at_once=options.at_once, report=report))
    else:
        from tests.soak.kills import run_kills

        asyncio.run(run_kills(options.seed, options.count, at_once=options.at_once, report=report))
    print(f"all {options.count} {options.what} passed")


if __name__ == "__main__":
    main()
