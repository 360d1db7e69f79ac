"""The log of a server whose reader does not read."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from understudy.servers.process.log_lines import LogStream
from understudy.testing import CodexHome
from understudy.testing.waiting import WAIT_SECONDS


@pytest.fixture(name="pipe")
def fixture_pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_what_nobody_reads_is_left_out_and_counted(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    log = logging.getLogger("understudy.servers.process.log_lines")
    handler = logging.StreamHandler(LogStream(writing))
    log.addHandler(handler)
    log.propagate = False
    try:
        for number in range(1000):
            log.warning("line %d %s", number, "x" * 200)
        kept = os.read(reading, 1 << 20).decode().splitlines()
        assert [line.split()[1] for line in kept] == [str(number) for number in range(len(kept))]
        log.warning("read again")
        lost = 1000 - len(kept)
        told = os.read(reading, 1 << 20).decode()
        assert told == f"{lost} lines of this log were left out, because nobody read it\nread again\n"
    finally:
        log.removeHandler(handler)
        log.propagate = True


def test_a_line_that_is_longer_than_the_pipe_is_cut_and_the_next_one_begins_anew(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stream = LogStream(writing)
    stream.write("x" * 1_000_000 + "\n")
    assert set(os.read(reading, 1 << 20)) == {ord("x")}
    stream.write("next \ud800\n")
    assert os.read(reading, 100).splitlines()[-1] == b"next \\ud800"


def test_a_reader_that_has_gone_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    LogStream(writing).write("to nobody\n")
    os.close(writing)


@pytest.mark.parametrize("command", ["mcp-server", "acp", "app-server"])
def test_a_server_whose_log_nobody_reads_goes_on(tmp_path: Path, command: str) -> None:
    environment = CodexHome(tmp_path / "home").environment({"UNDERSTUDY_LOG": "debug"})
    noise = b'{"jsonrpc":"2.0","method":"nonsense","params":{}}\n' * 1000
    asked = b'{"jsonrpc":"2.0","id":"last","method":"nosuch","params":{}}\n'
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", command],
            cwd=tmp_path,
            env=environment,
            input=noise + asked,
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert len(os.read(reading, 1 << 20)) > 32_000  # it had enough to say
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["id"] == "last"
