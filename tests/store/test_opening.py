"""A store that cannot be used says why, in words that help; one that can is private and made newer in place."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.records import append, new_id, noticed, open_log, opened, records_of
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.records import Noticed
from understudy.store.chain import LastDigests, Seals
from understudy.store.log import SavedText
from understudy.store.place import file_system_of, prepare_folder, refuse_network_file_system
from understudy.store.sqlite import open_files as schema
from understudy.store.sqlite import writing
from understudy.store.sqlite.event_log import SqliteLog, number_of
from understudy.testing.waiting import WAIT_SECONDS


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_folder_and_files_are_the_owner_s_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        log = open_log(tmp_path / "new" / "state")
        await append(log, opened(new_id()))
        assert mode_of(tmp_path / "new" / "state") == 0o700
        files = sorted(path.name for path in (tmp_path / "new" / "state").iterdir())
        of_sqlite = ["conversations.db", "conversations.db-shm", "conversations.db-wal"]
        assert files == ["audit.key", "bell", *of_sqlite, "kept", "locks"]
        assert sorted(path.name for path in (tmp_path / "new" / "state" / "kept").iterdir()) == [
            "audit.key",
            of_sqlite[0],
            "conversations.db-shm",
            "conversations.db-wal",
            "conversations.db-wal.copy",
        ]
        for name in files:
            assert mode_of(tmp_path / "new" / "state" / name) == (0o700 if name == "kept" else 0o600), name
        log.close()
    finally:
        os.umask(before)


async def test_a_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    open_log(folder).close()
    assert mode_of(folder) == 0o700


async def test_a_store_from_the_future_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    with sqlite3.connect(tmp_path / "conversations.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    for _ in range(3):
        with pytest.raises(StoreError, match=r"newer understudy \(version 99, this one knows \d+\); upgrade"):
            open_log(tmp_path)
    with sqlite3.connect(tmp_path / "conversations.db") as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (99,)
    raw.close()


def test_a_store_from_the_future_whose_server_was_killed_is_left_as_it_is(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    killed = "import os, sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 99'); os._exit(0)"
    subprocess.run([sys.executable, "-c", killed, tmp_path / "conversations.db"], check=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}  # that is no content
    assert len(before["conversations.db-wal"]) > 0
    with pytest.raises(StoreError, match="newer understudy"):
        SqliteLog(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")} == before


async def test_an_older_store_is_brought_up_to_date_with_all_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = new_id()
    log = open_log(tmp_path)
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2))
    log.close()
    newer = (*schema.MIGRATIONS, "CREATE TABLE extra(a INTEGER); INSERT INTO extra SELECT last_seq FROM conversations;")
    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    log = open_log(tmp_path)
    assert records_of(log, name)[-1] == Noticed("note 2")
    await append(log, noticed(name, 1, 3))
    log.close()
    raw = sqlite3.connect(tmp_path / "conversations.db")
    assert raw.execute("SELECT a FROM extra").fetchall() == [(2,)]
    assert raw.execute("PRAGMA user_version").fetchone() == (len(newer),)
    raw.close()


async def test_unfinished_text_in_a_store_of_the_first_version_is_still_there(tmp_path: Path) -> None:
    name = new_id()
    raw = sqlite3.connect(tmp_path / "conversations.db")
    raw.executescript(schema.MIGRATIONS[0] + "PRAGMA user_version = 1;")
    said = b'{"after":1,"text":"half of it","reasoning":"a thought","raw_reasoning":"","outputs":[["c","stdout","MTI="]]}'
    raw.execute("INSERT INTO partials VALUES (?, ?)", (number_of(name), said))
    raw.commit()
    raw.close()
    log = open_log(tmp_path)
    assert answered(log.saved_text(name)) == SavedText(1, "half of it", "a thought", "", (("c", "stdout", b"12"),))
    log.close()


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_log(tmp_path).close()
    before = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE extra(a); CREATE TABLE extra(a);"))
    with pytest.raises(StoreError, match="extra"):
        open_log(tmp_path)
    raw = sqlite3.connect(tmp_path / "conversations.db")
    assert raw.execute("PRAGMA user_version").fetchone() == (before,)
    assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    raw.close()


def test_many_processes_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from understudy.store.sqlite.event_log import SqliteLog; "
        "SqliteLog(Path(sys.argv[1])).close()"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s")], stderr=subprocess.PIPE) for _ in range(6)]
    outcomes = [(process.communicate(timeout=WAIT_SECONDS)[1], process.returncode) for process in started]
    assert outcomes == [(b"", 0)] * 6


@pytest.mark.parametrize(
    "content", [b"this is not a database, but a letter to a friend" * 100, b"SQLite format 3\x00" + b"\xff" * 8000]
)
async def test_a_damaged_file_is_told_with_a_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "conversations.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"conversations\.db is damaged .*doctor"):
        open_log(tmp_path)
    assert (tmp_path / "conversations.db").read_bytes() == content, "it is evidence, and perhaps not ours"


async def test_damage_inside_is_found_by_the_check_and_spares_other_conversations(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    good, bad = new_id(), new_id()
    for name in (good, bad):
        await append(log, opened(name))
    assert answered(log.check()) == "ok"
    raw = sqlite3.connect(tmp_path / "conversations.db")
    raw.execute("UPDATE records SET data = X'00' WHERE conversation = (SELECT number FROM conversations WHERE id = ?)", (bad,))
    raw.execute("UPDATE conversations SET summary = X'00' WHERE id = ?", (bad,))
    raw.execute("INSERT INTO said SELECT number, 1, X'00' FROM conversations WHERE id = ?", (bad,))
    raw.execute("INSERT INTO inbox(conversation, op) SELECT number, X'00' FROM conversations WHERE id = ?", (bad,))
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match=f"record 1 of conversation {bad} is damaged"):
        answered(log.read(bad))
    assert answered(log.saved_text(bad)) is None
    assert list(answered(log.letters(bad))) == []
    assert len(answered(log.read(good))) == 1
    listed = {row.conversation_id: row.summary.title for row in answered(log.list(10)).rows}
    assert set(listed) == {good, bad}
    assert "damaged" in listed[bad]
    log.close()


async def test_a_record_of_a_kind_that_is_not_known_is_perhaps_a_newer_builds(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2))
    raw = sqlite3.connect(tmp_path / "conversations.db")
    raw.execute("""UPDATE records SET data = CAST('{"type":"from_the_future"}' AS BLOB) WHERE seq = 2""")
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match=r"record 2 of .* is damaged, or a newer understudy wrote it, .*the 1 before it are whole"):
        answered(log.read(name))
    log.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where nobody may; the read-only disk test covers it")
async def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(StoreError, match="CODEX_HOME"):
        open_log(folder / "state")


async def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match="set CODEX_HOME to a folder you can write to"):
        open_log(tmp_path / "state")


async def test_a_folder_where_a_file_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "conversations.db").mkdir()
    with pytest.raises(StoreError, match="conversation store"):
        open_log(tmp_path)
    (tmp_path / "conversations.db").rmdir()
    (tmp_path / "locks").mkdir()
    with pytest.raises(StoreError, match="conversation store"):
        open_log(tmp_path)


def test_opening_in_vain_leaks_no_descriptors(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom understudy.errors import StoreError\n"
        "from understudy.store.sqlite.event_log import SqliteLog\n"
        "def attempt():\n    try:\n        SqliteLog(Path(sys.argv[1]))\n    except StoreError:\n        return\n"
        "attempt()\nbefore = len(os.listdir('/proc/self/fd'))\nfor _ in range(20): attempt()\n"
        "print(len(os.listdir('/proc/self/fd')) - before)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


MOUNTS = """22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
41 40 0:36 / /home/me/local\\040disk rw - ext4 /dev/sdb1 rw
42 22 0:37 / /mnt/share rw - cifs //server/share rw
43 22 0:38 / /mnt/ssh rw - fuse.sshfs me@server: rw
44 22 0:39 / /mnt/over rw - nfs4 server:/x rw
45 44 0:40 / /mnt/over rw - tmpfs tmpfs rw
a broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/.codex/understudy", "nfs4"),
        ("/homely", "ext4"),
        ("/home/me/local disk/x", "ext4"),
        ("/mnt/share/a/b", "cifs"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/mnt/over/x", "tmpfs"),
    ],
)
def test_the_kernel_s_table_tells_the_file_system(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "fuse.glusterfs"])
def test_a_network_file_system_is_refused_with_a_way_out(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:21 / / rw - {kind} server:/ rw\n")
    with pytest.raises(StoreError, match=rf"network file system \({kind}\).*CODEX_HOME to a folder on a local disk"):
        refuse_network_file_system(tmp_path, table)


def test_a_local_file_system_or_no_table_is_fine(tmp_path: Path) -> None:
    refuse_network_file_system(tmp_path)
    refuse_network_file_system(tmp_path, tmp_path / "no such table")
    (tmp_path / "table").write_text("22 1 0:21 / / rw - ext4 /dev/sda1 rw\n")
    refuse_network_file_system(tmp_path, tmp_path / "table")


def test_a_link_is_followed_to_where_the_store_lies(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:21 / / rw - ext4 /dev/sda1 rw\n23 22 0:22 / {tmp_path}/far rw - nfs4 server:/ rw\n")
    prepare_folder(tmp_path / "near")
    with pytest.raises(StoreError, match="nfs4"):
        refuse_network_file_system(tmp_path / "near", table)


async def test_a_connection_that_saw_the_store_while_it_was_empty_can_write(tmp_path: Path) -> None:
    """Two servers that are started at once on a new home: one makes the tables, the other has looked before."""
    path = tmp_path / "conversations.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    open_log(tmp_path).close()
    schema.migrate(connection, path, Seals(tmp_path))
    writing.prepare(connection)
    writing.write(connection, writing.append(1, opened(new_id()), LastDigests(connection, Seals(tmp_path))))
    assert connection.execute("SELECT count(*) FROM conversations").fetchone() == (1,)
    connection.close()


OPENER = """
import asyncio, sys
from pathlib import Path
from tests.store.records import append, new_id, open_log, opened

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    log = open_log(Path(sys.argv[1]))
    await append(log, opened(new_id()))
    log.close()

asyncio.run(main())
"""


def test_two_processes_can_make_a_store_at_the_same_moment(tmp_path: Path) -> None:
    for attempt in range(5):
        command = [sys.executable, "-c", OPENER, str(tmp_path / str(attempt))]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            assert process.communicate(timeout=WAIT_SECONDS) == ("", "")
