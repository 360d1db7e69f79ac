"""Questions and answers: registered before they are shown, the first answer counts, and an early one is not lost."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.store.records import new_id, open_log
from tests.support.answered import answered
from understudy.config.model import QuestionSettings
from understudy.engine.log.tail import Tail
from understudy.engine.turn.approvals import CLIENT, Approvals
from understudy.protocol.ops import Decide
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    Noticed,
    Opened,
    Overrides,
    PatchApprovalAsked,
    Record,
)
from understudy.protocol.records.files import AddFile
from understudy.tools.host import ApprovalAnswer, Question

COMMAND = CommandApprovalAsked("c", ("touch", "x"), "/w", key="the key")


class Scene:
    def __init__(self, folder: Path) -> None:
        self.log = open_log(folder)
        self.tail = Tail(new_id(), self.log, asyncio.get_running_loop())
        self.tail.begin()
        self.tail.append(Opened(self.tail.conversation_id, "m", Overrides()), turn="0")
        self.approvals = Approvals(self.tail)

    def ask(self, question: Question) -> asyncio.Task[ApprovalAnswer]:
        return asyncio.ensure_future(self.approvals.ask(question, "1"))

    async def records(self) -> list[Record]:
        await self.tail.committed()
        return [entry.record for entry in answered(self.log.read(self.tail.conversation_id))][1:]


async def test_the_first_answer_counts_and_the_others_are_on_record(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = scene.ask(COMMAND)
    await asyncio.sleep(0)
    assert scene.tail.state.questions == {"c": COMMAND}
    assert scene.approvals.decide(Decide("c", "approved_for_session", CLIENT), "1") is True
    assert scene.approvals.decide(Decide("c", "denied", CLIENT), "1") is False
    assert await asked == ApprovalAnswer("approved_for_session", CLIENT)
    assert await scene.records() == [
        COMMAND,
        ApprovalDecided("c", "approved_for_session", CLIENT, True, "the key"),
        ApprovalDecided("c", "denied", CLIENT, False, None),
    ]
    assert scene.tail.state.approved == {"the key"}
    scene.log.close()


async def test_an_answer_by_a_rule_is_told_to_whoever_watches(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = scene.ask(COMMAND)
    await asyncio.sleep(0)
    scene.approvals.decide(Decide("c", "denied", "nobody is there"), "1")
    assert (await asked).refusal("exec command") == "exec command rejected: nobody is there"
    assert (await scene.records())[-1] == Noticed("approval denied: nobody is there")
    scene.log.close()


async def test_a_question_from_before_a_restart_is_not_recorded_again_and_may_be_answered_at_once(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.tail.append(COMMAND, turn="1")
    assert scene.approvals.decide(Decide("c", "approved", CLIENT), "1") is True
    asked = scene.ask(CommandApprovalAsked("c", ("touch", "x"), "/w", key="another key"))
    assert await asked == ApprovalAnswer("approved", CLIENT)
    assert await scene.records() == [COMMAND, ApprovalDecided("c", "approved", CLIENT, True, "another key")]
    scene.log.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (COMMAND, CommandApprovalAsked("c", ("rm", "x"), "/w")),
        (COMMAND, CommandApprovalAsked("c", ("touch", "x"), "/elsewhere")),
        (COMMAND, CommandApprovalAsked("c", ("touch", "x"), "/w", retries=True)),
        (COMMAND, PatchApprovalAsked("c", {"/w/a": AddFile("x")})),
        (COMMAND, msgspec.structs.replace(COMMAND, full_access=True)),
        (COMMAND, msgspec.structs.replace(COMMAND, note="a rule")),
        (COMMAND, msgspec.structs.replace(COMMAND, typed_at="sh")),
        (PatchApprovalAsked("c", {"/w/a": AddFile("x")}), PatchApprovalAsked("c", {"/w/a": AddFile("y")})),
        (PatchApprovalAsked("c", {"/w/a": AddFile("x")}), PatchApprovalAsked("c", {"/w/a": AddFile("x")}, outside=("/w/a",))),
        (PatchApprovalAsked("c", {"/w/a": AddFile("x")}), PatchApprovalAsked("c", {"/w/a": AddFile("x")}, protected=("/w/a",))),
    ],
)
async def test_an_early_answer_is_not_taken_for_another_question(tmp_path: Path, before: Question, after: Question) -> None:
    scene = Scene(tmp_path)
    scene.tail.append(before, turn="1")
    scene.approvals.decide(Decide("c", "approved", CLIENT), "1")
    asked = scene.ask(after)
    await asyncio.sleep(0)
    assert not asked.done()
    assert scene.tail.state.questions == {"c": after}
    scene.approvals.decide(Decide("c", "denied", CLIENT), "1")
    assert (await asked).decision == "denied"
    scene.log.close()


async def test_of_early_answers_the_first_counts_and_is_on_record_before_the_others(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.tail.append(COMMAND, turn="1")
    assert scene.approvals.decide(Decide("c", "approved", CLIENT, by="ann"), "1") is True
    assert scene.approvals.decide(Decide("c", "denied", CLIENT, by="bob"), "1") is False
    assert scene.approvals.has_early("c")
    assert await scene.ask(COMMAND) == ApprovalAnswer("approved", CLIENT)
    assert not scene.approvals.has_early("c")
    assert await scene.records() == [
        COMMAND,
        ApprovalDecided("c", "approved", CLIENT, True, "the key", by="ann"),
        ApprovalDecided("c", "denied", CLIENT, False, None, by="bob"),
    ]
    scene.log.close()


async def test_an_early_answer_to_what_is_not_asked_any_more_is_on_record_as_one_that_does_not_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.tail.append(COMMAND, turn="1")
    scene.approvals.decide(Decide("c", "approved", CLIENT, by="ann"), "1")
    another = CommandApprovalAsked("c", ("rm", "x"), "/w")
    asked = scene.ask(another)
    await asyncio.sleep(0)
    assert await scene.records() == [COMMAND, another, ApprovalDecided("c", "approved", CLIENT, False, None, by="ann")]
    scene.approvals.decide(Decide("c", "denied", CLIENT), "1")
    assert (await asked).decision == "denied"
    scene.log.close()


async def test_an_early_answer_does_not_outlive_its_turn(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.tail.append(COMMAND, turn="1")
    scene.approvals.decide(Decide("c", "approved", CLIENT), "1")
    scene.approvals.begin_turn(QuestionSettings())
    asked = scene.ask(COMMAND)
    await asyncio.sleep(0)
    assert not asked.done()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    scene.log.close()


@pytest.mark.parametrize(("now", "answered"), [("one", True), ("", False), ("another", False)])
async def test_an_answer_given_before_the_dependencies_changed_does_not_count(tmp_path: Path, now: str, answered: bool) -> None:
    scene = Scene(tmp_path)
    before = msgspec.structs.replace(COMMAND, depends_on="one")
    after = msgspec.structs.replace(COMMAND, depends_on=now)
    scene.tail.append(before, turn="1")
    assert scene.approvals.decide(Decide("c", "approved", CLIENT), "1") is True  # as after a restart, when nobody waits here yet
    asked = scene.ask(after)
    await asyncio.sleep(0)
    if not answered:
        assert scene.tail.state.questions == {"c": after}
        assert scene.approvals.decide(Decide("c", "denied", CLIENT), "1") is True
    assert (await asked).decision == ("approved" if answered else "denied")
    scene.log.close()


async def test_an_answer_to_an_earlier_question_of_the_same_id_is_none_to_a_later_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.ask(COMMAND)
    await asyncio.sleep(0)
    seen_at = scene.tail.state.asked_at["c"]
    assert scene.approvals.decide(Decide("c", "denied", CLIENT, asked_at=seen_at), "1") is True
    await first
    other = CommandApprovalAsked("c", ("rm", "x"), "/w")
    second = scene.ask(other)
    await asyncio.sleep(0)
    assert scene.approvals.decide(Decide("c", "approved", CLIENT, asked_at=seen_at), "1") is False
    assert scene.tail.state.questions == {"c": other}
    assert scene.approvals.decide(Decide("c", "denied", CLIENT, asked_at=scene.tail.state.asked_at["c"]), "1") is True
    assert (await second).decision == "denied"
    scene.log.close()
