"""`python -m tests.soak schedules --count 500`, `kills --count 1000`, `harms --count 300`, `disk-faults --count 300`,
`children --count 300`, `network-faults --count 300` or `replacements --count 2000`.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from tests.soak.child_kills import run_child_kills
from tests.soak.disk_faults import run_disk_faults
from tests.soak.harms import run_harms
from tests.soak.kills import run_kills
from tests.soak.network_faults import run_network_faults
from tests.soak.replacements import run_replacements
from tests.soak.schedule import run_schedules

RUNS = {
    "schedules": run_schedules,
    "kills": run_kills,
    "harms": run_harms,
    "disk-faults": run_disk_faults,
    "children": run_child_kills,
    "network-faults": run_network_faults,
    "replacements": run_replacements,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("what", choices=RUNS)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first; the others follow")
    parser.add_argument("--at-once", type=int, default=3)
    options = parser.parse_args()
    started = time.monotonic()

    def report(done: int) -> None:
        if done % 25 == 0 or done == options.count:
            print(f"{done} of {options.count} {options.what}, {time.monotonic() - started:.0f} s", flush=True)

    print(f"{options.count} {options.what} from seed {options.seed}", flush=True)
    asyncio.run(RUNS[options.what](options.seed, options.count, at_once=options.at_once, report=report))
    print(f"all {options.count} {options.what} passed")


if __name__ == "__main__":
    main()
