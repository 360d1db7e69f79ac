"""A server of root does for the model what a command of that conversation could do, and nothing more.

On generated trees: what the tools answer and leave behind is compared with what contained commands do, on a tree made alike.
"""

import json
import os
import random
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.scenes import scene, told_to_model
from tests.golden_exec.play import PNG
from tests.tools.patch.tree import patch_text
from understudy.testing import Answer, call, say

OWNER, STRANGER, FOREIGN_GROUP = 12345, 23456, 34567
CANARY = "canary in the file"
NEW = "new"
MODES_OF_FILES = (0o644, 0o600, 0o640, 0o664, 0o666, 0o444, 0o400, 0o000, 0o604, 0o222, 0o755, 0o4755, 0o2775)
MODES_OF_FOLDERS = (0o755, 0o700, 0o711, 0o733, 0o777, 0o1777, 0o2775, 0o2777, 0o555, 0o750, 0o000)
OPERATIONS = ("read", "list", "update", "add", "overwrite", "delete", "move", "look")
COMMANDS = {
    "read": "cat {d}/f",
    "look": "cat {d}/f",
    "list": "ls {d}",
    "update": "printf '%s\\n' new > {d}/f",
    "add": "printf '%s\\n' new > {d}/added",
    "overwrite": "printf '%s\\n' new > {d}/f",
    "delete": "rm -f {d}/f && test ! -e {d}/f",
    "move": "test -r {d}/f && mv {d}/f {d}/moved",
}
CONFIG = {"approval_policy": "never", "sandbox_mode": "workspace-write", "understudy.sandbox.network": "off"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="shows what a server of root does")


class Case(NamedTuple):
    """A folder with one file, and what is done there."""

    name: str
    operation: str
    folder: tuple[int, int, int]  # owner, group, mode
    file: tuple[int, int, int]
    way: str  # how the path leads there

    @property
    def path(self) -> str:
        return f"{self.name}-link" if self.way == "link" else self.name


def cases(seed: int, count: int) -> list[Case]:
    dice = random.Random(seed)

    def one(modes: tuple[int, ...]) -> tuple[int, int, int]:
        owner = dice.choice((OWNER, OWNER, 0, STRANGER))
        return owner, dice.choice((owner, OWNER, 0, FOREIGN_GROUP)), dice.choice(modes)

    found: list[Case] = []
    for number in range(count):
        operation = OPERATIONS[number % len(OPERATIONS)]
        # A patch does not go through links, wherever they lead.
        ways = ("plain", "plain", "hard link") + (("link",) if operation in ("read", "list", "look") else ())
        found.append(Case(f"case{number}", operation, one(MODES_OF_FOLDERS), one(MODES_OF_FILES), dice.choice(ways)))
    return found


def make(top: Path, planned: list[Case]) -> None:
    for case in planned:
        folder = top / case.name
        folder.mkdir()
        file = folder / "f"
        file.write_text(f"{CANARY}\n")
        os.chown(file, *case.file[:2])
        file.chmod(case.file[2])
        if case.way == "hard link":
            os.link(file, top / f"{case.name}-other")
        if case.way == "link":
            (top / case.path).symlink_to(case.name)
        os.chown(folder, *case.folder[:2])
        folder.chmod(case.folder[2])


def called(case: Case, top: str) -> Answer:
    folder = f"{top}/{case.path}"
    match case.operation:
        case "read":
            return call("read_file", call_id=case.name, path=f"{folder}/f")
        case "look":
            return call("search", call_id=case.name, pattern=CANARY, path=f"{folder}/f")
        case "list":
            return call("list_files", call_id=case.name, path=folder)
        case "update":
            return patch(case, f"*** Update File: {folder}/f", "@@", f"-{CANARY}", f"+{NEW}")
        case "overwrite":
            return patch(case, f"*** Add File: {folder}/f", f"+{NEW}")
        case "add":
            return patch(case, f"*** Add File: {folder}/added", f"+{NEW}")
        case "delete":
            return patch(case, f"*** Delete File: {folder}/f")
        case _:
            return patch(case, f"*** Update File: {folder}/f", f"*** Move to: {folder}/moved", "@@", f"-{CANARY}", f"+{NEW}")


def patch(case: Case, *lines: str) -> Answer:
    text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    return call("shell", call_id=case.name, command=["apply_patch", text])


def succeeded(case: Case, told: str) -> bool:
    match case.operation:
        case "read" | "look":
            return CANARY in told
        case "list":
            return "[no files]" not in told and "cannot" not in told and "denied" not in told
        case _:
            return "Success. Updated" in told


def left_in(folder: Path, *, moved: bool) -> dict[str, Any]:
    """What a command leaves as well: of a moved file, whose it is does not count, since it holds something new."""
    found: dict[str, Any] = {}
    for name in sorted(os.listdir(folder)):
        status = (folder / name).stat()
        found[name] = None if moved else (status.st_uid, status.st_gid, oct(status.st_mode), (folder / name).read_text())
    return found


@contextmanager
def stage(owner: int) -> Generator[Path]:
    """Not below /tmp, where commands see only what is their own."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp", prefix="doer-")))
        top.chmod(0o755)
        (top / "work").mkdir()
        os.chown(top / "work", owner, owner)
        yield top


def unlike(planned: list[Case], told: dict[str, str], by_commands: str, work: Path) -> str:
    answers = {line.split()[0]: line.split()[1] == "0" for line in by_commands.splitlines() if line.startswith("case")}
    differing: list[str] = []
    for case in planned:
        by_tool, by_command = succeeded(case, told[case.name]), answers[case.name]
        if by_tool != by_command:
            differing.append(f"{case}: tool {by_tool}, command {by_command}: {told[case.name][:200]}")
            continue
        moved = case.operation == "move"
        tool, command = (left_in(work / top / case.name, moved=moved) for top in ("tools", "commands"))
        if tool != command:
            differing.append(f"{case}: tool left {tool}, command {command}")
    return "\n".join(differing)


def readable(case: Case, doer: int) -> bool:
    """Updates, moves and overwriting read first; a command that only writes does not."""
    if case.operation not in ("update", "overwrite", "move"):
        return True
    owner, group, mode = case.file
    bits = mode >> 6 if owner == doer else mode >> 3 if group == doer else mode
    return bool(bits & 4)


@pytest.mark.parametrize(
    ("owner", "rung"),
    [
        (OWNER, "full"),
        (0, "full"),
        pytest.param(OWNER, "landlock", marks=pytest.mark.slow),
        pytest.param(OWNER, "bubblewrap", marks=pytest.mark.slow),
        pytest.param(0, "bubblewrap", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), pytest.param(2, 128, marks=pytest.mark.slow), pytest.param(3, 128, marks=pytest.mark.slow)]
)
async def test_tools_can_do_what_commands_can(owner: int, rung: str, seed: int, count: int) -> None:
    planned = [case for case in cases(seed, count) if readable(case, owner)]
    with stage(owner) as top:
        work = top / "work"
        for name in ("tools", "commands"):
            (work / name).mkdir()
            (work / name).chmod(0o777)
            make(work / name, planned)
        lines = [f"( {COMMANDS[case.operation].format(d=case.path)} ) >/dev/null 2>&1; echo {case.name} $?" for case in planned]
        (work / "all.sh").write_text("\n".join(lines))
        (work / "all.sh").chmod(0o644)
        by_command = call("shell", call_id="commands", command=["sh", "../all.sh"], workdir="commands")
        tools = sum((called(case, "tools") for case in planned), Answer(()))
        script = [by_command, tools, say("done")]
        async with scene(script, work, config=CONFIG, env={"UNDERSTUDY_SANDBOX_RUNG": rung}) as (model, client):
            await client.codex("Try everything.")
            told = {case.name: told_to_model(model.requests[2], case.name) for case in planned}
            by_commands = json.loads(told_to_model(model.requests[2], "commands"))["output"]
        assert unlike(planned, told, by_commands, work) == ""


SECRET = "the secret of somebody else"


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
async def test_what_a_command_cannot_read_reaches_the_model_by_no_tool(mode: str) -> None:
    """By its path, through links, by a search over everything, as an image, as instructions, or in the refusal of a patch."""
    with stage(OWNER) as top:
        work, private = top / "work", top / "private"
        private.mkdir(mode=0o700)
        (private / "key").write_text(SECRET)
        (private / "picture.png").write_bytes(PNG)
        (work / "link").symlink_to("../private/key")
        (work / "folder").symlink_to("../private")
        (work / "AGENTS.md").write_text(SECRET)
        (work / "AGENTS.md").chmod(0o600)
        (work / "closed").write_text(SECRET)
        (work / "closed").chmod(0o600)
        calls = [
            *(("read_file", {"path": path}) for path in (f"{private}/key", "link", "folder/key", "closed", "AGENTS.md")),
            *(("search", {"pattern": "secret of", "path": path}) for path in (".", str(private), "folder", "closed", "/etc")),
            *(("list_files", {"path": path}) for path in (str(private), "folder")),
            *(("view_image", {"path": path}) for path in (f"{private}/picture.png", "folder/picture.png")),
            *(
                ("apply_patch", {"input": patch_text(f"*** Update File: {path}", "@@", f"-{SECRET}", "+x")})
                for path in ("closed", "link")
            ),
            ("edit_file", {"path": "closed", "old_text": SECRET, "new_text": "x"}),
        ]
        tools = sum((call(name, call_id=f"c{at}", **given) for at, (name, given) in enumerate(calls)), Answer(()))
        async with scene([tools, say("done")], work, config={**CONFIG, "sandbox_mode": mode}) as (model, client):
            await client.codex("Look around.")
        sent = json.dumps(model.requests)
        asked = json.dumps([given for _, given in calls])[1:-1]
        assert sent.count(SECRET) == sent.count(f"-{SECRET}") + sent.count(f'old_text\\": \\"{SECRET}') > 0, asked
        assert "key\\n" not in sent
        assert "image_url" not in sent
        assert (work / "closed").read_text() == SECRET


async def test_an_image_that_a_call_names_is_read_with_the_same_rights() -> None:
    with stage(OWNER) as top:
        (top / "private").mkdir(mode=0o700)
        (top / "private/picture.png").write_bytes(PNG)
        async with scene([], top / "work", config=CONFIG) as (_, client):
            refused = await client.codex("Look", {"images": [str(top / "private/picture.png")]})
        assert "Permission denied" in json.dumps(refused)


async def test_a_workspace_of_root_is_worked_in_as_root_without_powers() -> None:
    """A command has root's own files there, and nobody else's."""
    with stage(0) as top:
        (top / "foreign").write_text(CANARY)
        os.chown(top / "foreign", STRANGER, STRANGER)
        (top / "foreign").chmod(0o600)
        (top / "own").write_text(CANARY)
        (top / "own").chmod(0o600)
        names = ("foreign", "own")
        reads = [call("read_file", call_id=f"read-{name}", path=str(top / name)) for name in names]
        cats = [call("shell", call_id=f"cat-{name}", command=["cat", str(top / name)]) for name in names]
        async with scene([sum((*reads, *cats), Answer(())), say("done")], top / "work", config=CONFIG) as (model, client):
            await client.codex("Read.")
        told = {name: [CANARY in told_to_model(model.requests[1], f"{how}-{name}") for how in ("read", "cat")] for name in names}
        assert told == {"foreign": [False, False], "own": [True, True]}


async def test_where_nothing_is_contained_the_tools_are_not_either() -> None:
    with stage(OWNER) as top:
        (top / "private").mkdir(mode=0o700)
        (top / "private/key").write_text(CANARY)
        tools = call("read_file", call_id="c1", path=str(top / "private/key")) + call(
            "apply_patch", call_id="c2", input=patch_text("*** Add File: made", "+x")
        )
        config = {**CONFIG, "sandbox_mode": "danger-full-access"}
        async with scene([tools, say("done")], top / "work", config=config) as (model, client):
            await client.codex("Read.")
        assert CANARY in told_to_model(model.requests[1], "c1")
        assert (top / "work/made").stat().st_uid == 0


async def test_what_a_command_leaves_in_its_tmp_is_read_and_an_empty_one_is_empty() -> None:
    with stage(OWNER) as top:
        script = [
            call("read_file", call_id="c1", path="/tmp/left"),
            call("shell", call_id="c2", command=["sh", "-c", f"umask 077; echo {CANARY} > /tmp/left"]),
            call("read_file", call_id="c3", path="/tmp/left") + call("list_files", call_id="c4", path="/tmp"),
            say("done"),
        ]
        async with scene(script, top / "work", config=CONFIG) as (model, client):
            await client.codex("Go.")
        assert "No such file" in told_to_model(model.requests[1], "c1")
        assert CANARY in told_to_model(model.requests[3], "c3")
        assert told_to_model(model.requests[3], "c4") == "/tmp/left"
