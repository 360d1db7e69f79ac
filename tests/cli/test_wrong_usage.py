"""What cannot be meant, at every command: exit code 2, a word on standard error, nothing on standard output, no traceback."""

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from understudy.testing import CodexHome
from understudy.testing.waiting import WAIT_SECONDS

LINES = """
hooks nonsense
hooks list extra
hooks test
hooks trust
search
search '((('
search foo --since yesterday
search foo --role boss
search foo --limit -1
store nonsense
store check extra
store move sqlite
help exec --nope
config nonsense
config sample extra
config set x
version extra
version --nope
token add ../x
token add x --budget cost_usd=5/fortnight
token add x --budget tokens=1.5/day
token add x --rights fly
token add x --expires yesterday
export
export --format pdf
verify --page
doctor --files nowhere
exec --until
exec --until '' hi
exec --budget x hi
exec --budget tokens=-1 hi
exec --budget tokens=1e999 hi
exec --local-provider
exec --worktree hi
exec resume -s read-only x hi
review --format xml
resume
show a b
undo
rename x
compact
approvals nope
import
backup
policy check --
trust --remove
sandbox --
apply-patch --nope
login sk-key
model nope
mcp add x
mcp get
completion
serve --port 99999
serve --role king
workers drain
app-server --listen foo
mcp-server extra
conversations --limit x
--nonsense
-c
-m
"""


@pytest.mark.slow
async def test_wrong_usage_is_2_and_a_word_at_every_command(tmp_path: Path) -> None:
    home = CodexHome(tmp_path / "home")
    turns = asyncio.Semaphore(2)

    async def problem(line: str) -> str | None:
        async with turns, asyncio.timeout(4 * WAIT_SECONDS):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "understudy", *shlex.split(line)),
                cwd=tmp_path,
                env=home.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
        if process.returncode == 2 and not out and err.strip() and b"Traceback" not in err:
            return None
        return f"{line}: exit code {process.returncode}\n{out.decode()}{err.decode()}"

    lines = LINES.strip().splitlines()
    found = await asyncio.gather(*map(problem, lines))
    assert not [each for each in found if each]
