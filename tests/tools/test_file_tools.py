"""`read_file`, `search` and `list_files`: what a model is given of files, and what it is told where there is nothing to give."""

import json
import os
import time
from pathlib import Path
from typing import Any, cast

import pytest

from understudy.errors import ToolError
from understudy.places.places import pin_places
from understudy.policy.rules import NO_RULES
from understudy.protocol.choices import ApprovalPolicy
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import Record, ToolCallBegan, ToolCallEnded
from understudy.sandbox.spec import Containment
from understudy.tools.host import ToolSettings
from understudy.tools.registry import find_tool
from understudy.tools.tool import ToolContext

FILE_NUMBERS = [f"{number:>6}\tline {number}" for number in range(1, 10_001)]


class Host:
    """Looking at files needs nothing of a turn but its settings and its log."""

    def __init__(
        self, cwd: Path, *masked: Path, policy: ApprovalPolicy = "never", tokens: int | None = None, tmp: Path | None = None
    ) -> None:
        places = pin_places(str(cwd), (), masked=[str(path) for path in masked])
        contained = None if tmp is None else Containment("read-only", private_tmp=str(tmp))
        roots = (str(cwd),)
        self.settings = ToolSettings(
            str(cwd), policy, "read-only", contained, roots, {}, NO_RULES, (), places, output_tokens=tokens
        )
        self.records: list[Record] = []
        self.unsaved = None

    def record(self, *records: Record) -> None:
        self.records += records


async def run(host: Host, tool: str, **arguments: object) -> str:
    call = FunctionCall(tool, json.dumps(arguments), "call1")
    found = find_tool(tool)
    assert found is not None
    return (await found.run(call, ToolContext(cast(Any, host), call))).text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("def one():\n    return 1\n")
    (folder / "src" / "b.py").write_text("import a\n\n\ndef two():\n    return a.one()\n")
    (folder / "notes.txt").write_text("nothing of one\n")
    return folder


# -- read_file


async def test_lines_are_read_with_their_numbers(project: Path) -> None:
    host = Host(project)
    assert await run(host, "read_file", path="src/a.py") == "     1\tdef one():\n     2\t    return 1"
    assert await run(host, "read_file", path="src/b.py", start_line=4, end_line=4) == "     4\tdef two():\n[lines 4-4 of 5]"
    assert await run(host, "read_file", path="src/b.py", start_line=None, end_line=1) == "     1\timport a\n[lines 1-1 of 5]"
    assert await run(host, "read_file", path="src/b.py", start_line=9) == "[the file has 5 lines]"


async def test_a_long_file_is_read_in_parts_that_fit_together(project: Path) -> None:
    (project / "long").write_text("".join(f"line {number}\n" for number in range(1, 10_001)))
    host = Host(project, tokens=1000)
    shown: list[str] = []
    following = 1
    while following:
        said = await run(host, "read_file", path="long", start_line=following)
        assert len(said) <= 4100
        *lines, note = said.split("\n")
        shown += lines
        following = int(note.rpartition("start_line ")[2].rstrip("]")) if "start_line" in note else 0
    assert shown == FILE_NUMBERS


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "[the file is empty]"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end with CR LF]"),
        (b"\xef\xbb\xbfa\n", "     1\ta"),
        ("\ufeffa\nb".encode("utf-16-le"), "     1\ta\n     2\tb\n[the file is in UTF-16]"),
        (b"a\xffb\n", "     1\ta\ufffdb\n[not all of it is UTF-8: \ufffd stands for what is not]"),
        (b"x" * 3000, f"     1\t{'x' * 2000}… [line cut]"),
        (b"a\x0bb\x0cc\xc2\x85d\n", "     1\ta\x0bb\x0cc\x85d"),
    ],
    ids=["empty", "CR LF", "byte order mark", "UTF-16", "not UTF-8", "a long line", "only line feeds end lines"],
)
async def test_every_kind_of_text_is_read(project: Path, content: bytes, wanted: str) -> None:
    (project / "file").write_bytes(content)
    assert await run(Host(project), "read_file", path="file") == wanted


async def test_a_line_without_end_takes_no_room(project: Path) -> None:
    with (project / "one").open("wb") as file:
        file.truncate(0)
        file.write(b"x" * (20 << 20))
        file.write(b"\nlast\n")
    said = await run(Host(project), "read_file", path="one")
    assert said.endswith("[line cut]\n     2\tlast")
    assert len(said) < 3000


async def test_a_binary_file_is_named_as_one(project: Path) -> None:
    (project / "x").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(ToolError, match=r"x cannot be read: it is a binary file \(PNG image\); look at it with view_image"):
        await run(Host(project), "read_file", path="x")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_lines_that_are_not_shown_are_only_counted(project: Path, encoding: str) -> None:
    """There may be millions of them, and others wait for the interpreter meanwhile."""
    count = 20_000_000
    (project / "lines").write_text("\n" * count + "here\n" + "\n" * (count // 4), encoding=encoding)
    began = time.process_time()
    said = await run(Host(project), "read_file", path="lines", start_line=count, end_line=count + 1)
    assert said.split("\n")[:2] == [f"{count}\t", f"{count + 1}\there"]
    assert f"[lines {count}-{count + 1} of {count + count // 4 + 1}]" in said
    assert time.process_time() - began < 5, "of computing: it took more than ten seconds when each line was looked at"


async def test_a_file_without_end_is_read_to_a_bound(project: Path) -> None:
    with (project / "huge").open("wb") as file:
        file.write(b"first\n" * 2000)
        file.truncate(1 << 34)
    said = await run(Host(project), "read_file", path="huge", end_line=2)
    assert said == "     1\tfirst\n     2\tfirst\n[lines 1-2 of more than 2000]"


# -- search


async def test_lines_that_fit_are_found_in_the_order_of_paths(project: Path) -> None:
    host = Host(project)
    assert await run(host, "search", pattern="one") == (
        "notes.txt:1:nothing of one\nsrc/a.py:1:def one():\nsrc/b.py:5:    return a.one()"
    )
    assert await run(host, "search", pattern=r"^def \w+\(\):$", path="src") == "src/a.py:1:def one():\nsrc/b.py:4:def two():"
    assert await run(host, "search", pattern="return", glob="b.*") == "src/b.py:5:    return a.one()"
    assert await run(host, "search", pattern="(?i)IMPORT", path="src/b.py") == "src/b.py:1:import a"
    assert await run(host, "search", pattern="no such thing") == "[no matches]"


async def test_more_results_than_asked_for_are_told(project: Path) -> None:
    (project / "many").write_text("x\n" * 50)
    said = await run(Host(project), "search", pattern="^x$", max_results=3)
    assert said == "many:1:x\nmany:2:x\nmany:3:x\n[3 matches are shown, there are more: narrow `pattern`, `path` or `glob`]"


async def test_results_stay_within_the_room_that_is_configured(project: Path) -> None:
    (project / "many").write_text(f"{'x' * 100}\n" * 500)
    said = await run(Host(project, tokens=250), "search", pattern="x", max_results=500)
    assert len(said) < 1200
    assert "there are more" in said


async def test_a_long_line_is_shown_around_its_match(project: Path) -> None:
    (project / "min.js").write_text("a" * 5000 + "NEEDLE" + "b" * 5000)
    said = await run(Host(project), "search", pattern="NEEDLE")
    assert said.startswith("min.js:1:…aaa")
    assert "NEEDLE" in said
    assert len(said) < 500


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\0needle", False),
        ("\ufeffneedle".encode("utf-16-le"), True),
        (b"\xff needle", True),
        (b"a\r\nneedle\r\n", True),
        (b"needle", True),
    ],
    ids=["binary", "UTF-16", "not UTF-8", "CR LF", "no last line end"],
)
async def test_every_kind_of_text_is_searched_and_nothing_else(project: Path, content: bytes, found: bool) -> None:
    (project / "file").write_bytes(content)
    for pattern in ("needle", "needle$", r"\w*needle\b"):
        assert ("file:" in await run(Host(project), "search", pattern=pattern)) is found


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{99999999999}", "", "(?P<x>a)(?P<x>b)", r"\g"])
async def test_what_is_no_pattern_is_refused_in_words(project: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match="the pattern is"):
        await run(Host(project), "search", pattern=pattern)


# -- list_files


async def test_files_are_listed_as_a_tree_or_by_a_glob(project: Path) -> None:
    host = Host(project)
    assert await run(host, "list_files") == "notes.txt\nsrc/\nsrc/a.py\nsrc/b.py"
    assert await run(host, "list_files", depth=1) == "notes.txt\nsrc/"
    assert await run(host, "list_files", glob="*.py") == "src/a.py\nsrc/b.py"
    assert await run(host, "list_files", path="./src/", glob=None) == "src/a.py\nsrc/b.py"
    assert await run(host, "list_files", glob="*.none") == "[no files]"


async def test_a_large_tree_is_shown_as_deep_as_there_is_room(project: Path) -> None:
    for number in range(200):
        (project / "many" / "er").mkdir(parents=True, exist_ok=True)
        (project / "many" / "er" / f"file-{number}").touch()
    said = await run(Host(project, tokens=100), "list_files")
    assert said == (
        "many/\nmany/er/ (200 files)\nnotes.txt\nsrc/\nsrc/a.py\nsrc/b.py\n"
        "[2 of 3 levels are shown: give `path` to see more of a folder]"
    )


async def test_a_glob_that_names_hidden_files_lists_them(project: Path) -> None:
    (project / ".github").mkdir()
    (project / ".github" / "ci.yml").touch()
    assert "github" not in await run(Host(project), "list_files")
    assert await run(Host(project), "list_files", glob=".github/**") == ".github/ci.yml"


# -- all of them


async def test_what_was_read_is_recorded_with_its_outcome(project: Path) -> None:
    host = Host(project)
    await run(host, "list_files", path="src")
    with pytest.raises(ToolError):
        await run(host, "read_file", path="none")
    began, ended, _, failed = host.records
    assert began == ToolCallBegan("call1", "codex", "list_files", {"path": "src"}, read_only=True)
    assert isinstance(ended, ToolCallEnded)
    assert (ended.result, ended.failed) == ({"content": [{"type": "text", "text": "src/a.py\nsrc/b.py"}]}, False)
    assert isinstance(failed, ToolCallEnded)
    assert (failed.error, failed.failed) == ("none cannot be read: No such file or directory", True)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": ""}),
        ("read_file", {"path": "a\0b"}),
        ("read_file", {"path": "src"}),
        ("read_file", {}),
        ("search", {"pattern": "x", "path": "none"}),
        ("search", {"pattern": 1}),
        ("list_files", {"path": "notes.txt"}),
        ("list_files", {"glob": "{a,b}" * 20}),
        ("list_files", {"path": "\ud800"}),
        ("list_files", {"path": "x" * 5000}),
    ],
)
async def test_bad_arguments_are_told_with_a_reason(project: Path, tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as refused:
        await run(Host(project), tool, **arguments)
    assert str(refused.value).encode()
    assert "Traceback" not in str(refused.value)


async def test_a_name_that_is_not_utf8_is_shown_spelled_out(project: Path) -> None:
    (Path(os.fsdecode(os.fsencode(project) + b"/src")) / os.fsdecode(b"\xff.txt")).write_text("one")
    assert await run(Host(project), "list_files", glob="*.txt") == "notes.txt\nsrc/\\udcff.txt"
    assert "src/\\udcff.txt:1:one" in await run(Host(project), "search", pattern="^one")


async def test_a_name_with_a_line_break_does_not_pass_for_lines_of_ours(project: Path) -> None:
    (project / "new\nsrc").mkdir()
    (project / "new\nsrc" / "x\n[no files]").write_text("one\n")
    shown = r'"new\nsrc/x\n[no files]"'
    assert await run(Host(project), "list_files", glob="new*/**") == shown
    assert (await run(Host(project), "list_files")).splitlines()[:2] == [r'"new\nsrc/"', shown]
    assert await run(Host(project), "search", pattern="^one") == f"{shown}:1:one"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/cmdline", "/dev/zero", "/proc/kcore"])
async def test_nothing_of_the_kernels_is_read(project: Path, path: str) -> None:
    (project / "link").symlink_to(path)
    for spelled in (path, "link"):
        with pytest.raises(ToolError, match=r"may not be read|cannot be read"):
            await run(Host(project), "read_file", path=spelled)


async def test_tmp_is_the_conversations_own_as_for_a_command(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "log.txt").write_text("mine\n")
    (own / "out").symlink_to("/tmp")
    project = Path("/var/tmp") if not tmp_path.is_relative_to("/var/tmp") else tmp_path
    host = Host(project, tmp=own)
    assert await run(host, "read_file", path="/tmp/log.txt") == "     1\tmine"
    assert await run(host, "list_files", path="/tmp") == "/tmp/log.txt\n/tmp/out"
    assert await run(host, "search", pattern="mine", path="/tmp") == "/tmp/log.txt:1:mine"
    with pytest.raises(ToolError, match="/tmp/out: it is not part of what a command could read"):
        await run(host, "list_files", path="/tmp/out")


@pytest.mark.parametrize("path", ["/etc/passwd", "secret.pem", "link", "/tmp"])
async def test_under_untrusted_only_that_is_read_which_a_harmless_command_may_read(project: Path, path: str) -> None:
    (project / "secret.pem").write_text("one")
    (project / "link").symlink_to("/etc/passwd")
    host = Host(project, policy="untrusted")
    with pytest.raises(ToolError, match="under the approval policy `untrusted`"):
        await run(host, "read_file", path=path)
    assert "secret" not in await run(host, "search", pattern="one")
    assert "secret" not in await run(host, "list_files")
    assert await run(host, "read_file", path="src/a.py")
