"""Every recorded exchange with the real server, played against ours.

Server messages and model requests are compared as two sequences, since their interleaving was a race. Where ours differs
by intent, `differences` changes the recording first and says why. With UNDERSTUDY_GOLDEN_SERVER set to the program that was
recorded (`codex` 0.20.0), that one is played instead, without differences: a test of this equipment.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.golden import differences, modern, recording, servers
from tests.golden.normalise import comparable_request, hide_instructions, offered_tools, to_text
from tests.golden.play import Played, play
from tests.golden.recording import Json, Recording
from understudy.testing import SERVER_COMMAND

pytestmark = pytest.mark.xdist_group("goldens")  # all of them are played by one thread

PEER = os.environ.get("UNDERSTUDY_GOLDEN_SERVER")
AT_ONCE = 4  # most of a play is waiting: for a process to start, a time limit to pass
BY_CHANCE = {"reply_while_busy"}  # the recorded server itself behaves differently from run to run

PLAYED = [name for name in recording.names() if not PEER or name not in BY_CHANCE]
# One of each kind of exchange; its twins on the other wire and its variants are in the second tier.
QUICK = {
    "bad_arguments", "cancel_model", "cancel_shell", "codex_plain", "codex_reply", "codex_stream", "conversation",
    "elicitation_error", "exec_approved", "exec_denied", "exec_long_output", "handshake", "model_401",
    "model_500", "model_stream_cut", "onfailure_approved", "onrequest_escalated", "patch_approved", "patch_auto",
    "patch_errors", "plan", "reasoning", "reply_while_busy", "several_calls_chat", "text_and_call",
    "untrusted_decisions",
}  # fmt: skip
BY_ARGUMENTS = " -c"  # behind a name: the configuration is given by arguments, and not by a file
IN_MODERN = " modern"  # behind a name: with `wire = "modern"`
QUICK_IN_MODERN = (
    "codex_stream_responses",
    "conversation_approval",
    "exec_approved",
    "model_500",
    "patch_approved",
    "reasoning_chat",
)
RANKED = {"profile"}  # an argument wins over a profile, and a file does not
QUICK_BY_ARGUMENTS = ("codex_plain", "exec_approved", "model_500", "patch_auto")  # the others: second tier


def tiered(name: str) -> Any:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


def expectation(name: str) -> Recording:
    """`name`: of a recording, with what it says behind it of how it is played."""
    wanted = recording.load(name.removesuffix(BY_ARGUMENTS).removesuffix(IN_MODERN))
    if not PEER:
        differences.apply(wanted)
    if name.endswith(IN_MODERN):
        servers.servers_told(wanted)
        modern.apply(wanted)
    return wanted


class Plays:
    """Plays the chosen recordings in a thread of its own, a few at once; each test waits for its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self._results: dict[str, Future[Played]] = {name: Future() for name in names}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play_all()), name="goldens")
        self._thread.start()

    def result(self, name: str) -> Played:  # with what is behind it
        return self._results[name].result(timeout=600)

    def join(self) -> None:
        self._thread.join()

    async def _play_all(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for name in self._results:
                tasks.create_task(self._play_one(name, slots))

    async def _play_one(self, name: str, slots: asyncio.Semaphore) -> None:
        command, pause = ((PEER, "mcp"), 0.3) if PEER else (SERVER_COMMAND, 0)
        async with slots:
            # not below /tmp, which commands may write and which is not the same place for them
            with tempfile.TemporaryDirectory(prefix="golden-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
                try:
                    played = await play(
                        expectation(name),
                        Path(folder).resolve(),
                        command,
                        check_frames=not PEER,
                        pause=pause,
                        by_arguments=name.endswith(BY_ARGUMENTS),
                        in_modern=name.endswith(IN_MODERN),
                    )
                except Exception as error:
                    self._results[name].set_exception(error)
                else:
                    self._results[name].set_result(played)


def _chosen(items: Sequence[pytest.Item]) -> Iterator[str]:
    """The recordings that the selected tests are about."""
    for item in items:
        if isinstance(item, pytest.Function) and "plays" in item.fixturenames:
            yield str(item.callspec.params["name"])


@pytest.fixture(scope="session")
def plays(request: pytest.FixtureRequest) -> Iterator[Plays]:
    plays = Plays(list(_chosen(request.session.items)))
    yield plays
    plays.join()


@pytest.mark.parametrize("name", [tiered(name) for name in PLAYED])
def test_the_exchange_is_as_recorded(plays: Plays, name: str) -> None:
    assert_as_recorded(expectation(name), plays.result(name))


def tiered_by_arguments(name: str) -> Any:
    marks = () if name in QUICK_BY_ARGUMENTS else pytest.mark.slow
    return pytest.param(name + BY_ARGUMENTS, marks=marks)


@pytest.mark.skipif(PEER is not None, reason="the recorded server takes no settings by argument")
@pytest.mark.parametrize("name", [tiered_by_arguments(name) for name in PLAYED if name not in RANKED])
@pytest.mark.quick(1)
def test_it_is_the_same_with_the_configuration_given_by_arguments(plays: Plays, name: str) -> None:
    assert_as_recorded(expectation(name), plays.result(name))


def tiered_in_modern(name: str) -> Any:
    marks = () if name in QUICK_IN_MODERN else pytest.mark.slow
    return pytest.param(name + IN_MODERN, marks=marks)


@pytest.mark.skipif(PEER is not None, reason="the recorded server knows no other events")
@pytest.mark.parametrize("name", [tiered_in_modern(name) for name in PLAYED])
def test_it_is_the_same_in_the_shapes_of_the_last_releases(plays: Plays, name: str) -> None:
    assert_as_recorded(expectation(name), plays.result(name))


def assert_as_recorded(wanted: Recording, played: Played) -> None:
    said = [step for step in wanted.steps if step.kind not in ("client", "model")]
    requests = [step.value for step in wanted.steps if step.kind == "model"]
    asked = [comparable_request(request) for request in requests]
    assert_same("messages of the server", said, played.server, played.stalled)
    assert_same("requests to the model", asked, seen_requests(requests, played), played.stalled)
    for request, made in zip(requests, played.model, strict=True):
        assert offered_tools(request) <= made.tools
        assert request.get("headers", {}).items() <= made.headers.items()
    assert played.stalled is None
    assert played.files == wanted.files
    assert played.faults == []


def seen_requests(recorded: Sequence[Json], played: Played) -> list[Json]:
    """The requests made, with our own instructions hidden where the recording hides its own."""
    made = [request.compared for request in played.model]
    for index, request in enumerate(recorded[: len(made)]):
        if "<instructions>" in (request["body"].get("instructions"), request["body"].get("messages", [{}])[0].get("content")):
            made[index] = hide_instructions(made[index])
    return made


def assert_same(what: str, wanted: Sequence[Any], played: Sequence[Any], stalled: str | None) -> None:
    if list(wanted) == list(played):
        return
    settled = [there if there == one else one for one, there in zip_longest(wanted, played[: len(wanted)])]
    diff = difflib.unified_diff(to_text(settled), to_text(played), "recorded", "played", lineterm="", n=6)
    pytest.fail("\n".join([f"{what} differ", *diff, stalled or ""]), pytrace=False)


def test_every_recording_is_played_or_named_as_played_later() -> None:
    assert set(recording.names()) >= {*QUICK, *QUICK_IN_MODERN, *QUICK_BY_ARGUMENTS}
    assert set(differences.TABLE) <= set(recording.names())
