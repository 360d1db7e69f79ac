"""Files that are damaged, by accident or on purpose: taken in whole, or refused with a word that names the place; never half."""

import asyncio
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.program import Program

pytestmark = pytest.mark.xdist_group("damaged files")  # one fixture serves all of them, and takes long

ID = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+new\n*** End Patch\n"


def _old_rollout() -> bytes:
    lines = [
        {"id": ID, "timestamp": "2025-08-03T12:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look 👀"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "abc"},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"x","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seen \ud83d\ude00."}]},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _new_rollout() -> bytes:
    payloads = [
        ("session_meta", {"id": ID, "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/nowhere"}),
        ("turn_context", {"cwd": "/nowhere", "model": "m"}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}),
        ("compacted", {"message": "all so far"}),
        ("response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Gone"}]}),
    ]
    lines = [{"timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "payload": payload} for kind, payload in payloads]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A store for all examples: none may leave anything that troubles the next."""
    folder = tmp_path_factory.mktemp("damaged")
    program = Program(folder / "home", folder / "project")
    program.home.mkdir()
    program.cwd.mkdir()
    return program


@pytest.fixture(scope="module")
def files(place: Program, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("source")
    program = Program(folder / "home", folder / "project")
    program.home.mkdir()
    program.cwd.mkdir()
    program.script(
        [{"think": "Look."}, {"say": "Looking."}, {"call": "shell", "arguments": {"command": ["printf", "é"]}}],
        [{"call": "apply_patch", "arguments": {"input": PATCH}}, {"call": "nonsense", "arguments": {"x": 1}}],
        [{"say": "Done 🎭."}, {"usage": {"input": 10, "output": 2}}],
    )
    one = asyncio.run(program.begin("Do it"))
    export = program.call("export", one).out.encode()
    return [export, export, _old_rollout(), _new_rollout()]


Mutation = tuple[str, float, bytes]
SPITEFUL = (b"\xff", b"\xc3", b"\x00", b'"', b"{", b"}", b"[" * 3000, b"\\ud800", b"9" * 5000, b"1e999", b"-1", b"null", b"\n")
KINDS = ("set", "insert", "delete", "cut", "double a line", "drop a line", "swap lines", "set a number", "set a text")
mutations = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.sampled_from(SPITEFUL), st.binary(min_size=1, max_size=6)),
    ),
    min_size=1,
    max_size=4,
)


def _mutate(data: bytes, kind: str, where: float, what: bytes) -> bytes:
    at = int(where * len(data))
    lines = data.split(b"\n")
    row = int(where * len(lines))
    match kind:
        case "set":
            return data[:at] + what + data[at + len(what) :]
        case "insert":
            return data[:at] + what + data[at:]
        case "delete":
            return data[:at] + data[at + 8 :]
        case "cut":
            return data[:at]
        case "double a line":
            return b"\n".join([*lines[:row], lines[row], *lines[row:]])
        case "drop a line":
            return b"\n".join(lines[:row] + lines[row + 1 :])
        case "swap lines":
            lines[row], lines[-row] = lines[-row], lines[row]
            return b"\n".join(lines)
        case "set a number":
            start = next((index for index in range(at, len(data)) if data[index : index + 1].isdigit()), at)
            return data[:start] + what + data[start + 1 :]
        case _:
            start = data.find(b'"', at) + 1
            return data[:start] + what + data[data.find(b'"', start) :]


def _count(program: Program) -> int:
    database = program.home / "understudy" / "conversations.db"
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database)) as store:
        return int(store.execute("SELECT count(*) FROM conversations").fetchone()[0])


def _judge(program: Program, data: bytes) -> None:
    before = _count(program)
    ended = program.call("import", "-", "--new-id", "--json", stdin=data)
    assert ended.code in (0, 1), ended
    if ended.code == 1:
        assert ended.err.startswith(("understudy: -: ", "understudy: - "))
        assert _count(program) == before, "nothing is half imported"
        return
    assert _count(program) == before + 1
    one = json.loads(ended.out)["conversation_id"]
    for words in (("show", one), ("show", one, "--json"), ("conversations", "--limit", "3"), ("conversations", "--json")):
        shown = program.call(*words)
        assert (shown.code, shown.err) == (0, ""), shown
    again = program.call("import", "-", "--new-id", stdin=program.call("export", one).out)
    assert again.code == 0, "what was taken in can be taken out and in again"


@pytest.mark.slow
@given(which=st.integers(0, 3), how=mutations, packed=st.booleans())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_damaged_file_is_taken_in_whole_or_refused_with_a_word(
    place: Program, files: list[bytes], which: int, how: list[Mutation], packed: bool
) -> None:
    data = files[which]
    if packed:
        data = gzip.compress(data, mtime=0)
    for kind, where, what in how:
        data = _mutate(data, kind, where, what)
    _judge(place, data)


HEADER = f'{{"understudy_export":1,"conversation_id":"{ID}","records":2,"written_by":"x"}}'
OPENED = '{"seq":1,"parent":0,"turn":"0","at":1.0,"record":{"type":"opened","conversation_id":"x","model":"m","overrides":{}}}'
OPENED_AGAIN = OPENED.replace('"seq":1,"parent":0', '"seq":2,"parent":1')


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((HEADER, OPENED, b"\xff"), "line 3: "),
        ((HEADER, "", OPENED, "", '{"seq":2,"turn":"\xff"'.encode("latin-1")), "line 5: not UTF-8 (byte 18)"),
        ((HEADER, OPENED, OPENED_AGAIN), "line 3: expected a record other than `opened`"),
        ((HEADER, OPENED, '{"seq":2,"parent":0' + OPENED[19:]), "line 3: "),
        ((HEADER, OPENED.replace('"at":1.0', '"at":1e300')), "line 2: `at` is not a time"),
        ((HEADER, OPENED.replace('"at":1.0', '"at":-1e15')), "line 2: `at` is not a time"),
        ((HEADER, OPENED.replace("{}", '{"config":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}")), "line 2: "),
        (("{" + "[" * 100_000,), "is neither an export of understudy nor a session file of codex"),
        ((b"\xff\xfe",), "is neither an export of understudy nor a session file of codex"),
    ],
)
def test_the_file_and_the_line_are_named(place: Program, tmp_path: Path, lines: tuple[str | bytes, ...], said: str) -> None:
    file = tmp_path / "damaged.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    before = _count(place)
    ended = place.call("import", str(file))
    assert ended.code == 1
    assert ended.err.startswith(f"understudy: {file}: {said}") or ended.err.startswith(f"understudy: {file} {said}"), ended.err
    assert _count(place) == before


def test_lines_of_a_session_file_that_cannot_be_read_are_counted(place: Program) -> None:
    lines = _old_rollout().split(b"\n")
    lines[3] = lines[3][:20] + b"\xff" + lines[3][20:]
    lines[4] = b"{"
    ended = place.call("import", "-", "--new-id", stdin=b"\n".join(lines))
    assert ended.code == 0
    assert "2 lines that cannot be read were left out: 4, 5" in ended.err


def test_text_with_half_a_character_is_kept_with_a_mark_in_its_place(place: Program) -> None:
    data = _old_rollout().replace(rb"Seen \ud83d\ude00.", rb"Half \ud83d of \ude00\ud83d\ude00.")
    assert data != _old_rollout()
    ended = place.call("import", "-", "--new-id", "--json", stdin=data)
    assert ended.code == 0, ended.err
    assert "● Half \ufffd of \ufffd😀." in place.call("show", json.loads(ended.out)["conversation_id"]).out


@pytest.mark.slow
def test_what_unpacks_to_too_much_is_refused(place: Program) -> None:
    data = gzip.compress(b"\n" * (600 * 1024 * 1024), compresslevel=1)
    ended = place.call("import", "-", stdin=data)
    assert (ended.code, "unpacks to more than" in ended.err) == (1, True)


def test_a_folder_that_is_not_utf_8_is_refused(place: Program) -> None:
    ended = place.run("import", "-", "--new-id", "--cwd", "/tmp/\udcff", stdin=_old_rollout())
    assert (ended.code, "--cwd" in ended.err) == (1, True), ended
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["x'7b22ff22'", "x'7b2274797065223a2275ff'", "'{}'", "5", "'[1'"])
def test_a_damaged_record_of_the_store_is_named_by_whoever_reads_it(program: Program, damage: str) -> None:
    program.script({"say": "Hello."}, {"say": "Again."})
    one, other = (asyncio.run(program.begin("Greet me")) for _ in range(2))
    with closing(sqlite3.connect(program.home / "understudy" / "conversations.db", isolation_level=None)) as store:
        number = int(one.replace("-", "")[:16], 16) >> 1
        assert store.execute(f"UPDATE records SET data = {damage} WHERE conversation = ? AND seq = 3", (number,)).rowcount == 1
    for words in (("show", one), ("show", one, "--json"), ("export", one), ("export", one, "-o", "x.jsonl"), ("resume", one, "Hi")):
        ended = program.run(*words)
        assert ended.code == 1, ended
        assert "Traceback" not in ended.err
        assert f"record 3 of conversation {one} is damaged" in ended.err
    assert not (program.cwd / "x.jsonl").exists()
    assert program.call("show", other).code == 0, "the others are whole"
    assert len(program.json("conversations", "--json")) == 2
