"""`understudy conversations` and `show`: what there is, for people and for programs."""

import json
import re

import pytest
from rich.cells import cell_len

from tests.cli.program import Program
from tests.store.records import claimed
from understudy.protocol.ids import ConversationId
from understudy.store.sqlite.event_log import SqliteLog

HOSTILE = "Clear my screen \x1b[2J\x1b]0;owned\x07 \u202eplease"


def test_where_there_are_none_the_list_says_so_and_makes_nothing(program: Program) -> None:
    ended = program.call("conversations")
    assert (ended.code, ended.out, ended.err) == (0, "", "No conversations yet.\n")
    assert program.json("conversations", "--json") == []
    assert not list(program.home.iterdir())


@pytest.mark.slow
async def test_the_list_can_be_read_by_people_and_by_programs(program: Program) -> None:
    program.script({"say": "First."})
    first = await program.begin("Say one thing")
    second = await program.begin(HOSTILE)
    rows = program.json("conversations", "--json")
    assert [row["conversation_id"] for row in rows] == [second, first], "the last active comes first"
    assert {key: rows[1][key] for key in ("title", "status", "message_count", "cwd", "model", "pending", "archived")} == {
        "title": "Say one thing",
        "status": "idle",
        "message_count": 2,
        "cwd": str(program.cwd),
        "model": "scripted",
        "pending": [],
        "archived": False,
    }
    header, *lines = program.call("conversations").out.splitlines()
    assert header.split() == ["ID", "LAST", "ACTIVE", "STATUS", "MESSAGES", "FOLDER", "TITLE"]
    assert lines[0].startswith(second[:8])
    assert r"Clear my screen \u{1b}[2J\u{1b}]0;owned\u{7} \u{202e}please" in lines[0]
    assert len(program.json("conversations", "--json", "--limit", "1")) == 1
    shown = program.at_terminal("conversations").out
    assert "\x1b[2J" not in shown
    assert "\x1b]0" not in shown


@pytest.mark.slow
async def test_a_conversation_can_be_archived_brought_back_and_deleted(program: Program) -> None:
    program.script({"say": "Done."})
    one = await program.begin("Tidy up")
    assert program.call("conversations", "archive", one[:6]).out == f"archived {one}\n"
    assert program.json("conversations", "--json") == []
    assert [row["conversation_id"] for row in program.json("conversations", "--json", "--archived")] == [one]
    assert program.call("conversations", "unarchive", one).out == f"unarchived {one}\n"
    assert len(program.json("conversations", "--json")) == 1

    refused = program.call("conversations", "delete", one)
    assert (refused.code, refused.err) == (1, "understudy: deleting is for good: add --yes where nobody can be asked\n")
    kept = program.at_terminal("conversations", "delete", one, answers=[("[y/N]", "n\n")])
    assert f"kept {one}" in kept.out
    assert program.call("conversations", "delete", "--yes", one).out == f"deleted {one}\n"
    assert program.json("conversations", "--json") == []
    assert not list((program.home / "understudy" / "tmp").glob("*"))


async def test_a_conversation_whose_turn_runs_elsewhere_is_not_deleted(program: Program) -> None:
    program.script({"say": "Done."})
    one = await program.begin("Hold on")
    log = SqliteLog(program.home / "understudy")
    claim = claimed(log, ConversationId(one))
    try:
        ended = program.call("conversations", "delete", "--yes", one)
    finally:
        claim.release()
        log.close()
    assert ended.code == 1
    assert "has a turn running in another process" in ended.err
    assert len(program.json("conversations", "--json")) == 1


async def test_a_transcript_tells_what_was_said_run_changed_and_decided(program: Program) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+new line\n*** End Patch\n"
    program.script(
        [{"think": "Have a look."}, {"say": "Looking."}, {"call": "shell", "arguments": {"command": ["printf", "a\\033[31mb\\n"]}}],
        [{"call": "apply_patch", "arguments": {"input": patch}}, {"call": "nonsense", "arguments": {"x": 1}}],
        {"say": "All \x1b[31mdone\x1b]0;x\x07."},
    )
    one = await program.begin(HOSTILE)
    ended = program.call("show", one[:5])
    assert ended.code == 0
    title, _, rest = ended.out.partition("\n\n")
    assert title.splitlines()[0] == r"Clear my screen \u{1b}[2J\u{1b}]0;owned\u{7} \u{202e}please"
    assert one in title
    assert rest.split("\n\n") == [
        r"❯ Clear my screen  \u{202e}please",
        "○ Have a look.",
        "● Looking.",
        f'$ printf "a\\\\033[31mb\\\\n"\n  │ ab\n  └ exit 0, {_seconds(rest)} s',
        "± add made.txt (+1 -0)\n  +new line\n  └ applied",
        '⚙ nonsense {"x":1}\n  │ unsupported call: nonsense\n  └ failed',
        "● All done.\n",
    ]


def _seconds(transcript: str) -> str:
    return transcript.partition("exit 0, ")[2].partition(" s")[0]


async def test_events_come_as_lines_with_their_sequence_numbers(program: Program) -> None:
    program.script({"say": "Done."})
    one = await program.begin("Do it")
    lines = [json.loads(line) for line in program.call("show", one, "--json").out.splitlines()]
    assert [(line["seq"], line["turn"], line["msg"]["type"]) for line in lines] == [
        (1, "0", "session_configured"),
        (2, "1", "user_message"),
        (3, "1", "task_started"),
        (5, "1", "agent_message"),
        (6, "1", "task_complete"),
    ]
    assert all(line["at"].endswith("Z") for line in lines)


def test_an_id_that_is_unknown_or_none_is_a_plain_error(program: Program) -> None:
    for spelled, said in (
        ("abcd", "no conversation abcd"),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", "no conversation 0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("latest", "'latest' is not the id of a conversation, nor the beginning of one"),
    ):
        ended = program.call("show", spelled)
        listed = "`understudy conversations` lists those there are"
        assert (ended.code, ended.out, ended.err) == (1, "", f"understudy: {said}; {listed}\n")


async def test_an_id_with_a_slip_in_it_is_answered_with_the_one_that_was_meant(program: Program) -> None:
    program.script({"say": "Hello."})
    one = await program.begin("Greet me")
    slip = one[:6] + ("0" if one[6] != "0" else "1") + one[7]
    for spelled in (slip, slip + one[8:]):
        for words in (("show",), ("export",), ("conversations", "archive")):
            ended = program.call(*words, spelled)
            assert (ended.code, f"(did you mean {one}?)" in ended.err) == (1, True), ended


WIDE = "漢字のとても長い題名がここにあります 🎭 [bold]not bold[/bold] " + "x" * 60
HOSTILES = (WIDE, HOSTILE, "[red]", "", "\n\n", "a\tb", "\u202eevil", "x" * 500)


def _import(program: Program, number: int, title: str, start: str = "") -> str:
    digits = f"{start}{number:x}".ljust(32, "a")[:32]
    one = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    lines = [
        {"id": one, "timestamp": "2025-08-03T12:00:00.000Z", "cwd": "/home/me/a long folder/with/many/parts/beneath/it"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": title or " "}]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ended = program.call("import", "-", stdin=text)
    assert ended.code == 0, ended.err
    return one


@pytest.mark.slow
@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_at_every_width_ids_find_their_conversation_and_no_line_is_too_long(program: Program, width: int) -> None:
    ids = [_import(program, number + 1, title) for number, title in enumerate(HOSTILES)]
    ids += [_import(program, 0xE0, "Twin", "0f8fad5bd9c"), _import(program, 0xF0, "Twin", "0f8fad5bd9c")]
    program.call("conversations", "archive", ids[-1])
    shown = program.at_terminal("conversations", columns=width).out
    assert "\x1b[2J" not in shown
    assert "\x1b]" not in shown
    assert "\u202e" not in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").splitlines()
    if width >= 40:
        assert max(map(cell_len, lines)) <= width
    for one in ids[:-1]:
        (found,) = [line for line in lines if line.startswith(one[:8])]
        prefix = found.split()[0]
        assert len(prefix) >= 8
        assert program.call("show", prefix).code == 0, f"{prefix} is not enough"
        assert one.startswith(prefix)
    if width >= 60:
        assert any("[red]" in line for line in lines)


@pytest.mark.slow
def test_the_list_has_the_columns_for_which_there_is_room(program: Program) -> None:
    one = _import(program, 7, "Fix the parser, which loses a letter")
    started = r"7aaaaaaa  \d+ d ago"
    for width, header, line in (
        (40, "ID        LAST ACTIVE  STATUS", rf"{started}\s+idle\n  Fix the parser, which loses a letter"),
        (80, "ID        LAST ACTIVE  STATUS  MESSAGES  TITLE", rf"{started}\s+idle\s+1  Fix the parser, which loses a letter"),
        (120, "ID        LAST ACTIVE  STATUS  MESSAGES  FOLDER", rf"{started}\s+idle\s+1  /home/me/a long .*…  Fix the parser"),
    ):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", program.at_terminal("conversations", columns=width).out).replace("\r", "")
        assert plain.startswith(header), plain
        assert re.search(line, plain), plain
    assert one.startswith("7aaaaaaa")
