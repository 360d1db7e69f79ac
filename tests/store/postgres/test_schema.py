"""The tables of a database: made once, brought up to date, refused where they are newer, and missed in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from tests.cli.program import Program
from tests.store.conformance.writing import written
from tests.store.records import new_id, opened
from tests.store.search.said import found, say, user
from tests.support.postgres import the_server
from understudy.errors import StoreError
from understudy.store.postgres.log import PostgresLog
from understudy.store.postgres.schema import VERSION


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "home").mkdir()
    return Program(tmp_path / "home", tmp_path)


def named(program: Program, url: str) -> Program:
    program.configure(f'[understudy.store]\nurl = "{url}"\n')
    return program


def test_they_are_made_once_and_left_as_they_are(program: Program) -> None:
    url = the_server().new_tables()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DROP TABLE about, workers, groups, conversations, records, older_digests, said, inbox, claims, spending,"
            " texts, indexed, hosts, workspaces, beginnings, attended, ended"
        )
    made, again = named(program, url).call("store", "init"), program.call("store", "init")
    assert (made.code, made.err, again.code) == (0, "", 0)
    assert f"has the tables for conversations now (version {VERSION})" in made.out
    assert "are as they should be" in again.out
    assert "0 conversations" in program.call("doctor").out
    backup = program.call("backup", str(program.cwd / "copy"))
    assert (backup.code, (program.cwd / "copy").exists()) == (1, False)
    assert "is backed up by the tools of PostgreSQL" in backup.err
    checked = program.call("store", "check")
    assert checked.code == 0
    assert "0 conversations" in checked.out


async def test_those_of_the_first_version_are_brought_up_to_date_with_all_that_is_in_them(program: Program) -> None:
    url = the_server().new_tables()
    log = PostgresLog(program.home / "understudy", url, asyncio.get_running_loop())
    name = await say(log, [user("an old word")])
    log.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE texts, indexed, hosts, workspaces, beginnings, attended, ended")
        connection.execute("ALTER TABLE conversations DROP COLUMN host, DROP COLUMN folder")
        connection.execute("DROP INDEX workers_by_host")
        connection.execute("UPDATE about SET version = 1")
    made = await named(program, url).run_aside("store", "init")
    assert (made.code, made.err) == (0, "")
    assert "are of version 4 now; they were of version 1" in made.out
    log = PostgresLog(program.home / "understudy", url, asyncio.get_running_loop())
    assert await found(log, "old") == ["an old word"]
    audited = await log.audit(name)
    assert audited is not None
    assert (audited.records, audited.broken) == (2, None)
    log.close()


def test_newer_tables_are_refused_unless_they_say_that_this_build_may_use_them(program: Program) -> None:
    url = the_server().new_tables()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE about SET version = 99")
        assert named(program, url).call("store", "check").code == 0
        connection.execute("UPDATE about SET min_reader = 99")
    for words in (("store", "init"), ("store", "check"), ("conversations",)):
        refused = program.call(*words)
        assert refused.code == 1
        assert "made by a newer understudy (version 99, for builds that know 99; this one knows 4); upgrade" in refused.err


def test_older_tables_and_none_are_told_with_what_to_do(program: Program) -> None:
    url = the_server().new_tables()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE about SET version = 1")
        assert "run `understudy store init`" in named(program, url).call("conversations").err
        connection.execute("DROP TABLE about")
    assert "has no tables of ours yet: run `understudy store init`" in program.call("conversations").err


async def test_a_write_without_tables_is_told_what_to_do(tmp_path: Path) -> None:
    url = the_server().new_tables()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE workers")
    log = PostgresLog(tmp_path, url, asyncio.get_running_loop())
    error = await written(lambda done: log.append(opened(new_id()), done))
    assert isinstance(error, StoreError)
    assert "run `understudy store init`" in str(error)
    log.close()


def test_what_is_no_address_is_refused_and_no_password_is_repeated(program: Program, tmp_path: Path) -> None:
    for text, word in (
        ('url = "mysql://x"', "it is no address of a store"),
        ('url = "sqlite"\nurl_file = "x"', "`url` is set, too"),
        ('url_file = "nowhere"', "cannot be read: No such file"),
        ('urls = "x"', "`understudy.store.urls`"),
        ('url = "postgresql://me:s3cret@[x/y"', "is no address of a PostgreSQL database"),
        ('url = "postgresql://me:s3cret@127.0.0.1:1/y"', "postgresql://me@127.0.0.1:1/y does not answer"),
    ):
        program.configure(f"[understudy.store]\n{text}\n")
        refused = program.call("store", "check")
        assert refused.code == 1, text
        assert word in refused.err + refused.out, refused.err
        assert "s3cret" not in refused.err + refused.out
    program.configure("[understudy.cluster]\nlease_seconds = 1\n")
    assert "a number of seconds, 2 or more" in program.call("store", "check").err


def test_nothing_of_the_driver_is_imported_unless_a_database_is_named(program: Program) -> None:
    look = "import sys; from understudy.store.opening import open_store; from pathlib import Path; "
    look += f"open_store(Path({str(program.home)!r})).close(); print('psycopg' in sys.modules)"
    import subprocess
    import sys

    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout == b"False\n"
