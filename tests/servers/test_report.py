"""The report of a turn is a fold over its log: the same live and read back, and only what the records say."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.logs import Story
from understudy.config.model import ReportKind
from understudy.engine.log.fold import State
from understudy.engine.log.ledger import KEPT_COMMANDS, KEPT_TURNS, File, note_change
from understudy.protocol.items import FunctionCallOutput, Usage
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    CompactionStarted,
    Entry,
    PatchEnded,
    PatchStarted,
    Record,
    RequestSent,
    TokensCounted,
    ToolAnswered,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.report import LONGEST_COMMAND, MOST_COMMANDS, report_of

USAGE = Usage(10, 5, 15, 4)


def entries(*steps: tuple[float, Record], turn: str = "1") -> list[Entry]:
    return [Entry(seq, seq - 1, turn, at, record) for seq, (at, record) in enumerate(steps, 1)]


def report(*steps: tuple[float, Record], kind: ReportKind = "full") -> dict[str, Any]:
    work = State.of(entries((0.0, TurnStarted("1")), *steps)).ledger.work("1")
    assert work is not None
    return report_of(work, kind)


def test_it_tells_files_commands_tokens_cost_and_seconds() -> None:
    changes: dict[str, FileChange] = {"/w/a.py": AddFile("one\ntwo\n"), "/w/b.py": UpdateFile("@@\n-x\n+y\n+z\n")}
    told = report(
        (0.0, RequestSent(())),
        (0.5, TokensCounted(USAGE, USAGE, 0.25)),
        (1.0, PatchStarted("p", changes, auto_approved=True)),
        (1.0, PatchEnded("p", "", "", success=True)),
        (1.0, CommandStarted("c", ("bash", "-lc", "cd w && pytest -q"), "/w", contained=True)),
        (3.0, CommandEnded("c", "", "", 1, 2.0)),
        (3.0, CommandStarted("d", ("sleep", "9"), "/w", contained=True)),
        (4.0, CommandEnded("d", "", "", 124, 1.0, timed_out=True)),
        (4.5, TokensCounted(USAGE, USAGE.plus(USAGE), 0.5)),
        (5.0, TurnEnded("completed", "done")),
    )
    pytest = {"command": ["bash", "-lc", "cd w && pytest -q"], "exit_code": 1, "seconds": 2.0}
    assert told == {
        "files": [
            {"path": "/w/a.py", "change": "added", "added": 2, "removed": 0},
            {"path": "/w/b.py", "change": "updated", "added": 2, "removed": 1},
        ],
        "commands": [pytest, {"command": ["sleep", "9"], "exit_code": 124, "seconds": 1.0, "timed_out": True}],
        "tokens": 30,
        "usage": {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30, "cached_input_tokens": 8},
        "cost_usd": 0.75,
        "seconds": 5.0,
    }


def test_a_brief_one_tells_files_what_failed_tokens_and_cost() -> None:
    said = {"content": [{"type": "text", "text": "x"}]}
    commands = [("a", 0, False), ("b", 2, False), ("c", 124, True), ("d", None, False), ("e", -1, False)]
    steps: list[tuple[float, Record]] = [
        (0.0, PatchStarted("p", {"/w/a.py": AddFile("one\n")}, auto_approved=True)),
        (0.0, PatchEnded("p", "", "", success=True)),
        (0.5, TokensCounted(USAGE, USAGE, 0.25)),
        (1.0, ToolCallEnded("t", "time", "now", 0.25, {}, result=said)),
        (1.0, ToolCallEnded("u", "gone", "x", 0.0, error="no")),
    ]
    for name, exit_code, timed_out in commands:
        steps.append((1.0, CommandStarted(name, (name,), "/w", contained=True)))
        if exit_code is not None:  # the other one goes on, which `running` tells
            steps.append((1.0, CommandEnded(name, "", "", exit_code, 1.0, timed_out=timed_out)))
    told = report(*steps, kind="brief")
    assert [command["command"] for command in told.pop("commands")] == [["b"], ["c"], ["e"]]
    assert told == {
        "files": [{"path": "/w/a.py", "change": "added", "added": 1, "removed": 0}],
        "tools": [{"server": "gone", "tool": "x", "seconds": 0.0, "failed": True}],
        "tokens": 15,
        "cost_usd": 0.25,
    }


def test_a_brief_one_is_short_whatever_the_turn_did() -> None:
    steps: list[tuple[float, Record]] = []
    for number in range(KEPT_COMMANDS + 5):
        steps += [
            (0.0, CommandStarted(f"c{number}", ("echo", "x" * 9_000), "/w", contained=True)),
            (0.0, CommandEnded(f"c{number}", "", "", 1, 0.0)),
            (0.0, PatchStarted(f"p{number}", {f"/w/{number}": AddFile("1")}, auto_approved=True)),
            (0.0, PatchEnded(f"p{number}", "", "", success=True)),
        ]
    told = report(*steps, kind="brief")
    assert len(json.dumps(told)) < 8_000
    assert told["commands_left_out"] == KEPT_COMMANDS - len(told["commands"])
    assert told["files_left_out"] == KEPT_COMMANDS + 5 - len(told["files"])


def test_it_tells_which_tools_of_other_servers_were_called_but_not_our_own() -> None:
    said = {"content": [{"type": "text", "text": "x"}]}
    told = report(
        (1.0, ToolCallEnded("a", "time", "now", 0.25, {}, result=said)),
        (1.0, ToolCallEnded("b", "time", "now", 0.5, {}, result={**said, "isError": True})),
        (1.0, ToolCallEnded("c", "gone", "x", 0.0, error="no")),
        (1.0, ToolCallEnded("d", "codex", "read_file", 0.0, result=said)),
    )
    assert told["tools"] == [
        {"server": "time", "tool": "now", "seconds": 0.25},
        {"server": "time", "tool": "now", "seconds": 0.5, "failed": True},
        {"server": "gone", "tool": "x", "seconds": 0.0, "failed": True},
    ]


def test_what_is_not_known_is_left_out() -> None:
    assert report((2.0, TurnEnded("failed", "no"))) == {"files": [], "commands": [], "seconds": 2.0}


def test_a_cost_with_an_unknown_part_is_unknown() -> None:
    told = report((0.0, TokensCounted(USAGE, USAGE, 0.1)), (0.0, TokensCounted(USAGE, USAGE, None)))
    assert "cost_usd" not in told
    assert told["tokens"] == 30


def test_the_time_in_which_a_person_is_asked_does_not_count() -> None:
    told = report(
        (1.0, CommandApprovalAsked("a", ("ls",), "/w")),
        (100.0, ApprovalDecided("a", "denied", "client", effective=False)),
        (101.0, ApprovalDecided("a", "approved", "client")),
        (103.0, TurnEnded("completed", "done")),
    )
    assert told["seconds"] == 3.0


def test_the_time_after_a_crash_does_not_count() -> None:
    cut: list[tuple[float, Record]] = [
        (1.0, CommandStarted("c", ("make",), "/w", contained=True)),
        (9000.0, CommandEnded("c", "", "unknown", -1, 0.0)),
        (9000.0, ToolAnswered(FunctionCallOutput("c", "interrupted"), success=False)),
        (9000.0, TurnEnded("interrupted", "Turn interrupted", cut_at=1.0)),
    ]
    told = report(*cut)
    assert told["seconds"] == 1.0
    assert told["commands"] == [{"command": ["make"], "exit_code": None, "seconds": 0.0}]


def test_a_patch_that_failed_changed_nothing() -> None:
    started = PatchStarted("p", {"/w/a": AddFile("x")}, auto_approved=True)
    assert report((0.0, started), (0.0, PatchEnded("p", "", "no", success=False)))["files"] == []


def test_changes_to_one_file_are_told_as_one() -> None:
    files: dict[str, File] = {}
    note_change(files, "/a", AddFile("1\n2\n"))
    note_change(files, "/a", UpdateFile("@@\n-1\n+3\n", move_path="/b"))
    assert files == {"/b": File("added", 3, 1)}
    note_change(files, "/b", DeleteFile("3\n2\n"))
    assert files == {}
    note_change(files, "/c", UpdateFile("@@\n+1\n", move_path="/d"))
    assert files == {"/d": File("moved", 1, 0, "/c")}
    note_change(files, "/d", DeleteFile("1\n"))
    assert files == {"/c": File("deleted", 1, 1)}
    note_change(files, "/c", AddFile("new"))
    assert files == {"/c": File("updated", 2, 1)}


def test_a_long_turn_has_a_short_report() -> None:
    steps: list[tuple[float, Record]] = []
    for number in range(KEPT_COMMANDS + 5):
        steps += [
            (0.0, CommandStarted(f"c{number}", ("echo", "x" * 9_000), "/w", contained=True)),
            (0.0, CommandEnded(f"c{number}", "", "", 0, 0.0)),
        ]
    told = report(*steps)
    assert len(told["commands"]) == MOST_COMMANDS
    assert told["commands_left_out"] == KEPT_COMMANDS + 5 - MOST_COMMANDS
    assert all(len("".join(command["command"])) <= LONGEST_COMMAND + 5 for command in told["commands"])


@given(st.integers(), st.integers(1, 12))
@settings(max_examples=200)
def test_live_and_read_back_are_the_same_and_only_the_last_turns_are_kept(seed: int, turns: int) -> None:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
    live, read = story.state.ledger, State.read(story.entries).ledger
    assert live == read
    begun = [entry.record.turn_id for entry in story.entries if isinstance(entry.record, TurnStarted)]
    assert list(live.turns) == begun[-KEPT_TURNS:]
    assert live.total.requests == sum(isinstance(entry.record, RequestSent | CompactionStarted) for entry in story.entries)


@given(st.integers(), st.integers(1, 4))
@settings(max_examples=200)
def test_a_turn_lists_its_own_commands_in_their_order(seed: int, turns: int) -> None:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
    for turn, work in story.state.ledger.turns.items():
        own = [entry.record for entry in story.entries if entry.turn == turn]
        begun = [record.call_id for record in own if isinstance(record, CommandStarted)]
        assert [command.call_id for command in work.commands] == begun
        assert len(report_of(work, "full")["commands"]) == len(begun)
        assert work.spent.seconds <= max(story.entries[-1].at, 0.0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/a", "/b", "/c"]),
            st.sampled_from([AddFile("1\n"), DeleteFile("1\n"), UpdateFile("@@\n+1\n"), UpdateFile("@@\n+1\n", move_path="/b")]),
        ),
        max_size=12,
    )
)
def test_any_order_of_changes_can_be_told(changes: list[tuple[str, FileChange]]) -> None:
    files: dict[str, File] = {}
    for path, change in changes:
        note_change(files, path, change)
    assert all(file.added >= 0 and file.removed >= 0 for file in files.values())
