"""What an editor has not saved: the model reads, searches and edits that, and what may not be read stays unread."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import told_to_model
from tests.e2e.test_acp import ASKS, scene
from tests.support.acp_client import AcpClient
from understudy.testing import Script, ScriptedModel, call, say

GIVES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
UNSAVED = "[this is what the user has in an editor, and has not saved yet]"
CHANGE = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two, typed\n+TWO\n*** End Patch"


class Buffers:
    """The files that are open in the editor. It answers with what it has, and else as a file that it does not know."""

    def __init__(self, client: AcpClient) -> None:
        self.texts: dict[Path, Any] = {}
        self.asked: list[str] = []
        self.opens: Callable[[str], str] | None = None  # reads the disk for every answer
        self._client = client

    async def answer(self) -> None:
        seen = 0
        while True:
            found = await self._client.until(lambda message: "method" in message and "id" in message, "a request", seen)
            seen = self._client.messages.index(found) + 1
            if found["method"] != "fs/read_text_file":
                continue
            path = found["params"]["path"]
            self.asked.append(path)
            text = self.opens(path) if self.opens is not None else self.texts.get(Path(path))
            if isinstance(text, str):
                self._client.respond(found, {"content": text})
            elif text is None:
                self._client.send({"id": found["id"], "error": {"code": -32002, "message": "no such file"}})
            elif text is not ...:  # it never answers
                self._client.respond(found, text)


@asynccontextmanager
async def editor(
    script: Script, tmp_path: Path, *, config: dict[str, Any] | None = None, capabilities: Any = GIVES
) -> AsyncGenerator[tuple[ScriptedModel, AcpClient, Path, Buffers]]:
    async with scene(script, tmp_path, config=config or NEVER, capabilities=capabilities) as (model, client, work):
        buffers = Buffers(client)
        answering = asyncio.create_task(buffers.answer())
        try:
            yield model, client, work, buffers
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering


def files(tmp_path: Path, **texts: str) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    for name, text in texts.items():
        (work / f"{name}.txt").write_bytes(text.encode())
    return work


async def test_the_model_reads_what_is_not_saved_and_what_it_changes_there_is_kept(tmp_path: Path) -> None:
    files(tmp_path, a="one\ntwo\n", b="same\n")
    script = [
        call("read_file", call_id="r", path="a.txt"),
        call("read_file", call_id="s", path="b.txt"),
        call("apply_patch", call_id="p", input=CHANGE),
        call("read_file", call_id="t", path="a.txt"),
        say("done"),
    ]
    async with editor(script, tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": "zero\none\ntwo, typed\n", work / "b.txt": "same"}  # many editors tell no last line end
        session = await client.new_session(work)
        assert await client.prompt(session, "go") == "end_turn"
        assert told_to_model(model.requests[1], "r") == f"     1\tzero\n     2\tone\n     3\ttwo, typed\n{UNSAVED}"
        assert told_to_model(model.requests[2], "s") == "     1\tsame"
        patched = told_to_model(model.requests[3], "p")
        assert "M a.txt" in patched
        assert "The user had not saved a.txt" in patched
        assert (work / "a.txt").read_text() == "zero\none\nTWO\n"
        assert UNSAVED in told_to_model(model.requests[4], "t")  # the editor has the user's text still
        assert str(work / "a.txt") in buffers.asked
        diff = {"type": "diff", "path": str(work / "a.txt"), "oldText": "one\ntwo\n", "newText": "zero\none\nTWO\n"}
        assert diff in [part for update in client.updates("tool_call_update") for part in update["content"]]
        assert not [message for message in client.messages if message.get("method") == "fs/write_text_file"]


@pytest.mark.slow
async def test_an_edit_finds_the_text_that_is_not_saved_and_keeps_the_files_line_ends(tmp_path: Path) -> None:
    files(tmp_path, a="one\r\ntwo\r\n")
    script = [call("edit_file", path="a.txt", old_text="typed\n", new_text="mended\n"), say("done")]
    async with editor(script, tmp_path) as (_, client, work, buffers):
        buffers.texts = {work / "a.txt": "one\ntyped\ntwo"}
        await client.prompt(await client.new_session(work), "go")
        assert (work / "a.txt").read_bytes() == b"one\r\nmended\r\ntwo\r\n"


@pytest.mark.slow
async def test_a_search_goes_through_what_is_not_saved(tmp_path: Path) -> None:
    files(tmp_path, a="needle\n", b="hay\n", c="needle\n")
    script = [
        call("search", call_id="s", pattern="needle"),
        call("read_file", call_id="r", path="b.txt"),
        call("search", call_id="t", pattern="needle"),
        call("search", call_id="u", pattern="ne+dle", path="b.txt"),
        say("done"),
    ]
    async with editor(script, tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": "hay\n\nneedle, moved\n", work / "b.txt": "a new needle\n"}
        await client.prompt(await client.new_session(work), "go")
        found = told_to_model(model.requests[1], "s").splitlines()
        assert found[:2] == ["a.txt:3:needle, moved", "c.txt:1:needle"]
        assert found[2:] == ["[of a.txt the text in the user's editor was searched, which is not saved yet]"]
        again = told_to_model(model.requests[3], "t").splitlines()
        assert again[:3] == ["a.txt:3:needle, moved", "b.txt:1:a new needle", "c.txt:1:needle"]
        assert told_to_model(model.requests[4], "u").splitlines()[0] == "b.txt:1:a new needle"


@pytest.mark.slow
async def test_a_file_that_the_prompt_points_at_is_searched_as_the_editor_has_it(tmp_path: Path) -> None:
    files(tmp_path, a="hay\n")
    async with editor([call("search", pattern="needle"), say("done")], tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": "a needle\n"}
        session = await client.new_session(work)
        link = {"type": "resource_link", "name": "a.txt", "uri": (work / "a.txt").as_uri()}
        await client.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "look in"}, link])
        assert told_to_model(model.requests[1]).startswith("a.txt:1:a needle\n")


@pytest.mark.slow
async def test_an_editor_that_has_not_noticed_a_change_is_not_taken_at_its_word(tmp_path: Path) -> None:
    """It has what the disk had before the model's own change: nothing that a user has typed."""
    files(tmp_path, a="one\ntwo\n")
    script = [
        call("edit_file", path="a.txt", old_text="two", new_text="TWO"),
        call("read_file", call_id="r", path="a.txt"),
        call("edit_file", call_id="e", path="a.txt", old_text="one", new_text="ONE"),
        say("done"),
    ]
    async with editor(script, tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": "one\ntwo\n"}
        await client.prompt(await client.new_session(work), "go")
        assert told_to_model(model.requests[2], "r") == "     1\tone\n     2\tTWO"
        assert (work / "a.txt").read_text() == "ONE\nTWO\n"


@pytest.mark.slow
async def test_an_editor_is_never_asked_for_what_the_model_may_not_read(tmp_path: Path) -> None:
    work = files(tmp_path, secret="masked\n", a="one\n")
    outside = tmp_path / "outside.txt"
    outside.write_text("outside\n")
    (work / "link.txt").symlink_to("secret.txt")
    (work / "away.txt").symlink_to(outside)
    config = {**ASKS, "understudy.sandbox.mask": [str(work / "secret.txt")]}
    paths = ["secret.txt", "link.txt", "away.txt", str(outside), "/proc/self/environ", "missing.txt", "."]
    patch = "*** Begin Patch\n*** Update File: secret.txt\n@@\n-typed\n+x\n*** End Patch"
    script = [
        *(call("read_file", call_id=f"r{number}", path=path) for number, path in enumerate(paths)),
        call("edit_file", call_id="e", path="secret.txt", old_text="typed", new_text="x"),
        call("apply_patch", call_id="p", input=patch),
        call("search", call_id="s", pattern="typed"),
        say("done"),
    ]
    async with editor(script, tmp_path, config=config) as (model, client, work, buffers):
        buffers.texts = dict.fromkeys((work / "secret.txt", work / "link.txt", work / "away.txt", outside), "typed\n")
        session = await client.new_session(work)
        blocks = [{"type": "resource_link", "name": "s", "uri": (work / "secret.txt").as_uri()}]
        await client.call("session/prompt", sessionId=session, prompt=blocks)
        assert buffers.asked == []
        assert "typed" not in "".join(told_to_model(model.requests[number + 1], f"r{number}") for number in range(len(paths)))
        assert told_to_model(model.requests[-1], "s") == "[no matches]"
    assert (work / "secret.txt").read_text() == "masked\n"


async def test_an_answer_does_not_count_where_a_folder_on_the_way_has_changed_meanwhile(tmp_path: Path) -> None:
    """A command could have put a link to something masked there for just that moment."""
    files(tmp_path, a="one\n")
    async with editor([call("read_file", path="a.txt"), say("done")], tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": ...}
        number = client.ask_prompt(await client.new_session(work), "go")
        asked = await client.until(lambda message: message.get("method") == "fs/read_text_file", "a request for a text")
        (work / "other.txt").write_text("")
        client.respond(asked, {"content": "the key of another file"})
        await client.answer(number)
        assert told_to_model(model.requests[1]) == "     1\tone"


@pytest.mark.slow
async def test_a_file_that_is_exchanged_while_the_editor_reads_it_brings_nothing_masked_out(tmp_path: Path) -> None:
    """The worst that a command could do: a link for just the moment at which the editor opens the path."""
    work = files(tmp_path, a="plain\n", secret="the masked key\n")
    config = {**NEVER, "understudy.sandbox.mask": [str(work / "secret.txt")]}
    change = "*** Begin Patch\n*** Update File: a.txt\n@@\n-the masked key\n+mine\n*** End Patch"
    script = [
        call("read_file", path="a.txt"),
        call("search", call_id="s", pattern="plain"),
        call("apply_patch", call_id="p", input=change),
        say("done"),
    ]
    async with editor(script, tmp_path, config=config) as (model, client, work, buffers):
        buffers.opens = read_through_a_link
        assert await client.prompt(await client.new_session(work), "go") == "end_turn"
        assert buffers.asked == [str(work / "a.txt")] * 3
        told = [told_to_model(model.requests[1]), told_to_model(model.requests[2], "s")]
        assert told == ["     1\tplain", "a.txt:1:plain"]
        assert "Failed to find expected lines" in told_to_model(model.requests[3], "p")
    assert (work / "a.txt").read_text() == "plain\n"


def read_through_a_link(path: str) -> str:
    file = Path(path)
    kept = file.rename(file.with_name("kept"))
    file.symlink_to("secret.txt")
    text = file.read_text()
    kept.rename(file)
    return text


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [{}, {"content": None}, {"content": 5}, [], "text", 7, {"content": "a\0b"}, {"content": "x" * 9_000_000}],
    ids=["empty", "null", "number", "list", "string", "bare", "nul", "huge"],
)
async def test_whatever_an_editor_answers_a_file_can_be_read(tmp_path: Path, answer: Any) -> None:
    files(tmp_path, a="one\n")
    async with editor([call("read_file", path="a.txt"), say("done")], tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": answer if not isinstance(answer, str) else [answer]}
        assert await client.prompt(await client.new_session(work), "go") == "end_turn"
        assert told_to_model(model.requests[1]) == "     1\tone"
        assert buffers.asked == [str(work / "a.txt")]


@pytest.mark.slow
async def test_an_editor_that_never_answers_is_left_alone(tmp_path: Path) -> None:
    files(tmp_path, a="one\n")
    script = [*(call("read_file", call_id=f"r{number}", path="a.txt") for number in range(5)), say("done")]
    async with editor(script, tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": ...}
        assert await client.prompt(await client.new_session(work), "go") == "end_turn"
        assert [told_to_model(model.requests[number + 1], f"r{number}") for number in range(5)] == ["     1\tone"] * 5
        assert len(buffers.asked) == 3
        withdrawn = [message["params"]["requestId"] for message in client.messages if message.get("method") == "$/cancel_request"]
        assert len(withdrawn) == 3


@pytest.mark.slow
async def test_a_turn_that_waits_for_an_editor_can_be_cancelled(tmp_path: Path) -> None:
    files(tmp_path, a="one\n")
    async with editor([call("read_file", path="a.txt")], tmp_path) as (_, client, work, buffers):
        buffers.texts = {work / "a.txt": ...}
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        asked = await client.until(lambda message: message.get("method") == "fs/read_text_file", "a request for a text")
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert await client.answer(number) == {"stopReason": "cancelled"}
        assert (await client.told("$/cancel_request"))["requestId"] == asked["id"]


@pytest.mark.slow
@pytest.mark.parametrize("capabilities", [{}, {"fs": {}}, {"fs": {"readTextFile": False}}, {"fs": "yes"}], ids=str)
async def test_an_editor_that_does_not_offer_it_is_not_asked(tmp_path: Path, capabilities: Any) -> None:
    files(tmp_path, a="one\n")
    script = [call("read_file", path="a.txt"), call("search", call_id="s", pattern="one"), say("done")]
    async with editor(script, tmp_path, capabilities=capabilities) as (model, client, work, buffers):
        await client.prompt(await client.new_session(work), "go")
        assert told_to_model(model.requests[1]) == "     1\tone"
        assert buffers.asked == []


@pytest.mark.slow
async def test_a_session_that_was_closed_or_loaded_again_asks_only_where_it_is_open(tmp_path: Path) -> None:
    files(tmp_path, a="one\n")
    script = [call("read_file", path="a.txt"), say("done"), call("read_file", call_id="again", path="a.txt"), say("done")]
    async with editor(script, tmp_path) as (model, client, work, buffers):
        buffers.texts = {work / "a.txt": "typed\n"}
        session = await client.new_session(work)
        await client.prompt(session, "go")
        await client.call("session/close", sessionId=session)
        await client.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        await client.prompt(session, "again")
        assert told_to_model(model.requests[3], "again").startswith("     1\ttyped")
        assert buffers.asked == [str(work / "a.txt")] * 2


@pytest.mark.slow
async def test_a_folder_that_the_user_chose_by_a_link_is_spelled_as_they_do(tmp_path: Path) -> None:
    real = files(tmp_path, a="one\n")
    (tmp_path / "link").symlink_to(real)
    async with editor([call("read_file", path="a.txt"), say("done")], tmp_path) as (model, client, _, buffers):
        buffers.texts = {tmp_path / "link" / "a.txt": "typed\n"}
        await client.prompt(await client.new_session(tmp_path / "link"), "go")
        assert told_to_model(model.requests[1]).startswith("     1\ttyped")
