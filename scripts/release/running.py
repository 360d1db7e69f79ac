"""How the steps of a release run other programs, and what they say."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 600.0  # seconds for one step


def run(command: Sequence[str], *, must: bool = True, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> bool:
    done = subprocess.run(command, cwd=cwd, env=env, timeout=LONGEST, check=False)
    if done.returncode != 0 and must:
        raise SystemExit(f"release: {' '.join(command[:4])} … failed with {done.returncode}")
    return done.returncode == 0


def say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr)
