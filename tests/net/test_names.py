"""Name servers that say nothing, or nothing of one family: others are not held up, and what is known counts.

Here the system's function is another one; `test_name_servers.py` has real name servers.
"""

import asyncio
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.models.loopback import BOUND, loopback
from tests.net.test_tls import OK
from understudy.net import HttpClient, Unreachable, parse_url
from understudy.testing import McpProcess, ScriptedModel, say, text_of

# In the server: the first argument of a question tells which are answered, all others never are.
FUNCTION = """
import os, socket, time
known = socket.getaddrinfo
def ask(host, port, family=0, *more, **named):
    if host != "model.test":
        return known(host, port, family, *more, **named)
    open(os.environ["ASKED"], "a").close()
    if family == int(os.environ["ANSWERED"]):
        return [(family, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    time.sleep(3600)
socket.getaddrinfo = ask
"""


def server(model: ScriptedModel, tmp_path: Path, answered: int) -> McpProcess:
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FUNCTION)
    env = {"PYTHONPATH": str(folder), "ASKED": str(tmp_path / "asked"), "ANSWERED": str(answered)}
    return McpProcess(model.url.replace("127.0.0.1", "model.test"), cwd=tmp_path, env=env)


@pytest.mark.slow
async def test_a_name_of_which_one_family_is_never_told_is_reached_by_the_other(tmp_path: Path) -> None:
    async with ScriptedModel([say("Here.")]) as model, server(model, tmp_path, socket.AF_INET) as client:
        assert text_of(await client.codex("Hello")) == "Here."


async def test_a_server_that_is_to_end_does_not_wait_for_a_name(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, server(model, tmp_path, -1) as client:
        client.codex("Hello")
        await client.until(lambda: (tmp_path / "asked").exists() or None, "a question for the name")
        assert await client.close() == 0


Answers = tuple[Any, ...]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Names that end in `.silent` are never answered. The names that were asked for, in their order."""
    known, over, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def ask(host: str, *more: Any, **named: Any) -> Any:
        asked.append(host)
        if host.endswith(".silent"):
            over.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "over")
        return known("127.0.0.1", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield asked
    over.set()


async def test_names_that_are_not_answered_hold_up_no_other(silent: list[str]) -> None:
    client = HttpClient({}, connect_seconds=BOUND)
    waiting = [asyncio.create_task(client.get(parse_url(f"http://a{number}.silent/"), [], seconds=BOUND)) for number in range(40)]
    try:
        async with loopback(OK) as model, asyncio.timeout(BOUND):
            while len(silent) < len(waiting):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            url = parse_url(model.url.replace("127.0.0.1", "model.test"))
            answer = await client.post(url, [], [b"{}"], seconds=BOUND)
            assert await answer.read_text(BOUND, 10) == "ok"
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        await client.aclose()


async def test_a_name_that_is_not_resolved_in_time_is_said_to_be_and_asked_for_once(silent: list[str]) -> None:
    client = HttpClient({}, connect_seconds=0.05)
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"the name slow\.silent was not resolved within 0\.05 seconds") as failed:
            await client.get(parse_url("http://slow.silent/"), [], seconds=BOUND)
        assert (failed.value.why, failed.value.transient) == ("name", True)
    await client.aclose()
    assert silent == ["slow.silent"]


async def test_a_name_that_cannot_be_one_is_told_in_words() -> None:
    client = HttpClient({}, connect_seconds=BOUND)
    with pytest.raises(Unreachable, match="it is no valid name"):
        await client.get(parse_url(f"http://{'a' * 64}.test/"), [], seconds=BOUND)
    await client.aclose()
