"""All that is counted, in one go: servers with counters in them, then again under a tracer."""

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.client import BenchError
from benchmarks.counting.counted import Counted, Counts, has_tracer
from benchmarks.counting.scenarios import (
    CONVERSATIONS,
    FLOOD_MB,
    FLOODS,
    RECORDS,
    RECORDS_A_TURN,
    STORED,
    WARM,
    Run,
    Stage,
    Stretch,
)
from benchmarks.http_peers import free_port
from benchmarks.measures.crowds import open_sessions, reply_in_turn

STARTS = 3
_IDLE_SECONDS = 0.5
_FLOODS = 4
STORED_NAMES = ("catch_up_stdio", "catch_up_http", "list_1000")
NAMES = ("start", *(each.name for each in (*WARM, *FLOODS)), *STORED_NAMES, "app_server_start")


def measure(run: Run) -> None:
    with run.server() as counted:  # Python has compiled everything after that, and our start has its bundle
        _first_turn(counted)
        counted.settle()
    traced = [False] + [True] * has_tracer()
    if not has_tracer():
        run.left_out.append("system calls: there is no strace here")
    for tracing in traced:
        _start(run, traced=tracing)
        _warm(run, traced=tracing)
        _tried(run, "app_server_start", partial(_app_server, run, traced=tracing))
    _timers(run)
    if run.wanted(*STORED_NAMES):
        store = _fill_store(run)
        for tracing in traced:
            _stored(run, store, traced=tracing)
        _tried(run, "catch_up_http", partial(_catch_up_http, run, store))


def _how(traced: bool) -> dict[str, Any]:
    return {"traced": True} if traced else {"counters": "calls"}


def _first_turn(counted: Counted) -> Stage:
    stage = Stage(counted)
    stage.client.initialize()
    stage.session = stage.open()
    return stage


def _start(run: Run, *, traced: bool) -> None:
    if not run.wanted("start"):
        return
    for _ in range(1 if traced else STARTS):
        sent = run.model.received()[1]
        with run.server(**_how(traced)) as counted:
            stage = _first_turn(counted)
            counts, end = counted.settle()
            if traced:
                run.stretches.append(Stretch("start", "", end, 1))
                continue
            run.note("start", "python_calls", counts.python)
            run.note("start", "c_calls", counts.c)
            run.note("start", "modules", counts.modules)
            _note_first_write(run, "start", counts)
            run.note_talk("start", stage.client, 0, 0, run.model.received()[1] - sent, 1)


def _note_first_write(run: Run, name: str, counts: Counts) -> None:
    """When `initialize` is answered."""
    if counts.modules_at_first_write >= 0:
        run.note(name, "modules_at_initialize", counts.modules_at_first_write)
        run.note(name, "calls_at_initialize", counts.calls_at_first_write)


def _warm(run: Run, *, traced: bool) -> None:
    chosen = [each for each in (*WARM, *FLOODS) if run.wanted(each.name)]
    if not chosen:
        return
    with run.server(**_how(traced)) as counted:
        stage = _first_turn(counted)
        for each in chosen:
            _tried(run, each.name, partial(run.count, counted, stage, each))


def _tried(run: Run, name: str, count: Callable[[], None]) -> None:
    """A server of another time may not be able to do it."""
    try:
        count()
    except BenchError as error:
        if run.source is None:
            raise
        run.left_out.append(f"{name}: {str(error).splitlines()[0]}")


def _timers(run: Run) -> None:
    chosen = [each for each in FLOODS if run.wanted(each.name)]
    if not chosen:
        return
    with run.server(counters="timers") as counted:
        stage = _first_turn(counted)
        for each in chosen:
            each.do(stage)
            counted.settle()
            counted.counts("idle")
            counted.client.pump(lambda: False, _IDLE_SECONDS)
            counted.counts("busy")
            for _ in range(_FLOODS):  # few enough timers for one that is late to matter
                before = counted.counts()
                each.do(stage)
                after = counted.counts()
                run.note(each.name, "timers_a_mb", (after.timers - before.timers) / FLOOD_MB)
                run.note(each.name, "timer_ms_a_mb", (after.timer_ms - before.timer_ms) / FLOOD_MB)
                counted.settle()


def _app_server(run: Run, *, traced: bool) -> None:
    if not run.wanted("app_server_start"):
        return
    name = "app_server_start"
    for _ in range(1 if traced else STARTS):
        with run.server("app-server", **_how(traced)) as counted:
            client = counted.client
            info = {"name": "benchmark", "title": "benchmark", "version": "0"}
            client.wait(client.request("initialize", {"clientInfo": info}))
            counts, end = counted.settle()
            if traced:
                run.stretches.append(Stretch(name, "", end, 1))
                continue
            run.note(name, "python_calls", counts.python)
            run.note(name, "c_calls", counts.c)
            run.note(name, "modules", counts.modules)
            _note_first_write(run, name, counts)
            run.note_talk(name, client, 0, 0, 0, 1)


def _fill_store(run: Run) -> Path:
    """A home with many conversations, of which the one used last is long."""
    with run.server() as counted:
        client = counted.client
        client.initialize()
        open_sessions(client, CONVERSATIONS, at_once=50)
        tally = reply_in_turn(client, [client.begin_session()], RECORDS // RECORDS_A_TURN, 300.0)
        if len(tally.latencies) < RECORDS // RECORDS_A_TURN:
            raise BenchError("the store could not be filled in time")
        return client.home


def _stored(run: Run, store: Path, *, traced: bool) -> None:
    chosen = [each for each in STORED if run.wanted(each.name)]
    if chosen:
        with run.server(store=store, **_how(traced)) as counted:
            stage = _first_turn(counted)
            for each in chosen:
                _tried(run, each.name, partial(run.count, counted, stage, each))


def _catch_up_http(run: Run, store: Path) -> None:
    """The events of the long conversation as one stream."""
    name = "catch_up_http"
    if not run.wanted(name):
        return
    port = free_port()
    with run.server("serve", "--port", str(port), store=store, counters="calls") as counted:
        token = _token(counted, port)
        long = _get(port, token, "/v1/conversations?limit=1")["conversations"][0]["id"]
        _follow(port, token, long)
        counted.settle()
        for _ in range(run.batches):
            before = counted.counts()
            events, read = _follow(port, token, long)
            after, _ = counted.settle()
            run.note(name, "python_calls", after.python - before.python)
            run.note(name, "c_calls", after.c - before.c)
            run.note(name, "frames", events)
            run.note(name, "bytes", read)
        os.kill(counted.pid, signal.SIGTERM)


def _token(counted: Counted, port: int) -> str:
    token = counted.client.home / "understudy" / "token"
    if not counted.client.pump(lambda: token.exists() and _answers(port), 60.0):
        raise BenchError("`serve` did not start")
    return token.read_text().strip()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _get(port: int, token: str, path: str) -> dict[str, list[dict[str, str]]]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def _follow(port: int, token: str, conversation: str) -> tuple[int, int]:
    """Read until the last event of the last turn; how many events there were, and bytes."""
    turns = RECORDS // RECORDS_A_TURN + 1
    with socket.create_connection(("127.0.0.1", port), 60) as wire:
        path = f"/v1/conversations/{conversation}/events?stream=1"
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        data, ended = bytearray(), 0
        while ended < turns:
            more = wire.recv(1 << 20)
            if not more:
                raise BenchError(f"the stream ended: {bytes(data[-300:])!r}")
            start = max(0, len(data) - 20)
            tail = bytes(data[start:])
            data += more
            ended += bytes(data[start:]).count(b'"task_complete"') - tail.count(b'"task_complete"')
        return data.count(b"\nid: "), len(data)
