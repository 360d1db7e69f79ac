"""Attacks on the tools that read and edit files: masks, links, exchanged folders, pipes, floods, patterns without end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.security.house import KEY, LOGIN, NEVER, SSH_KEY, TOKEN, House, attacks, besieged, house, told
from understudy.testing import call, say

SECRET = "SECRET-OF-THE-MASK"
READ_ONLY: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "read-only"}
MASK = "understudy.sandbox.mask"

Calls = dict[str, tuple[str, dict[str, Any]]]


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


def look(path: str) -> Calls:
    """Every tool on one path."""
    return {
        f"read {path}": ("read_file", {"path": path}),
        f"search {path}": ("search", {"pattern": ".", "path": path}),
        f"list {path}": ("list_files", {"path": path}),
        f"edit {path}": ("edit_file", {"path": path, "old_text": "KEY", "new_text": "x"}),
        f"fill {path}": ("edit_file", {"path": path, "old_text": "", "new_text": "EVIL"}),
    }


def _beside_settings(files: dict[str, str]) -> dict[str, str]:
    return {path: content for path, content in files.items() if not path.startswith(".codex/")}


async def outcomes(calls: Calls, place: House, config: dict[str, Any]) -> dict[str, str]:
    async with besieged(attacks(calls), place, config) as (model, client):
        await client.call_tool("codex", prompt="go")
        return told(model.requests[-1])


@pytest.mark.slow
async def test_nothing_masked_is_read_searched_listed_or_edited_by_any_name(place: House) -> None:
    folder = place.project / "private"
    folder.mkdir()
    (folder / "key.txt").write_text(SECRET)
    (place.project / "by-link").symlink_to(folder)
    (place.project / "by-file-link").symlink_to(folder / "key.txt")
    (place.project / "up").symlink_to("..")
    os.link(folder / "key.txt", place.project / "hard.txt")
    home = str(place.home)
    names = ("private", "private/key.txt", "by-link/key.txt", "by-link", "by-file-link", "hard.txt", "up/project/private/key.txt")
    ours = (f"{home}/.ssh/id_ed25519", f"{home}/.codex/auth.json", f"{home}/.codex/understudy", "../.ssh", "/proc/self/environ")
    calls: Calls = {}
    for path in (*names, *ours):
        calls |= look(path)
    calls["whole"] = ("search", {"pattern": "SECRET|KEY|login|ghp_|sk-"})
    calls["home"] = ("search", {"pattern": "SECRET|PRIVATE|login|ghp_|sk-", "path": home, "glob": "**/.*/**"})
    calls["names"] = ("list_files", {"path": home, "glob": ".*/**"})
    calls["tree"] = ("list_files", {})
    kept = place.snapshot()
    config = {**NEVER, MASK: ["~/.ssh", "~/.aws", str(folder)]}
    said = await outcomes(calls, place, config)
    assert [secret for secret in (SECRET, SSH_KEY, LOGIN, KEY, TOKEN) if secret in str(said)] == []
    assert "id_ed25519" not in said["names"]
    assert "private" not in said["tree"]
    assert _beside_settings(place.snapshot()) == _beside_settings(kept)


async def test_no_edit_leaves_the_roots_or_reaches_what_is_protected(place: House) -> None:
    (place.project / "out").symlink_to(place.outside)
    edits = {
        "beside": ("edit_file", {"path": "../outside/kept.txt", "old_text": "kept", "new_text": "EVIL"}),
        "absolute": ("edit_file", {"path": str(place.outside / "kept.txt"), "old_text": "kept", "new_text": "EVIL"}),
        "link": ("edit_file", {"path": "out/kept.txt", "old_text": "kept", "new_text": "EVIL"}),
        "new": ("edit_file", {"path": "out/new.txt", "old_text": "", "new_text": "EVIL"}),
        "git": ("edit_file", {"path": ".git/config", "old_text": "[core]", "new_text": "[core]\n\tpager = evil"}),
        "hook": ("edit_file", {"path": ".git/hooks/pre-commit", "old_text": "", "new_text": "EVIL"}),
    }
    kept = place.snapshot()
    said = await outcomes(edits, place, NEVER)
    assert _beside_settings(place.snapshot()) == _beside_settings(kept)
    assert all("rejected" in text or "error" in text for text in said.values())


async def test_in_read_only_everything_is_read_and_nothing_edited_without_a_question(place: House) -> None:
    calls: Calls = {
        "read": ("read_file", {"path": "a.txt"}),
        "search": ("search", {"pattern": "one"}),
        "list": ("list_files", {}),
        "edit": ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"}),
    }
    said = await outcomes(calls, place, READ_ONLY)
    assert said["read"] == "     1\tone"
    assert said["search"] == "a.txt:1:one"
    assert said["list"] == "a.txt\nsrc/"
    assert "read-only" in said["edit"]
    assert (place.project / "a.txt").read_text() == "one\n"


async def test_an_edit_is_asked_about_like_a_patch_and_shown_before_it_is_made(place: House) -> None:
    config = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
    script = [call("edit_file", call_id="c", path="a.txt", old_text="one", new_text="two"), say("done")]
    async with besieged(script, place, config) as (model, client):
        reply = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert (place.project / "a.txt").read_text() == "one\n"
        [change] = question["params"]["codex_changes"].values()
        assert "-one\n+two" in change["update"]["unified_diff"]
        await client.respond(question, {"action": "accept", "decision": "approved"})
        await reply
        assert "Success" in told(model.requests[-1])["c"]
    assert (place.project / "a.txt").read_text() == "two\n"


async def test_a_working_directory_that_was_exchanged_is_neither_read_nor_edited(place: House) -> None:
    other = place.home / "other"
    (other / "src").mkdir(parents=True)
    (other / "a.txt").write_text(f"one {SECRET}\n")
    script = [say("first"), *attacks(look("a.txt") | {"all": ("search", {"pattern": "one"}), "tree": ("list_files", {})})]
    async with besieged(script, place, NEVER) as (model, client):
        first = await client.call_tool("codex", prompt="go")
        place.project.rename(place.home / "old")
        other.rename(place.project)
        await client.call_tool("codex-reply", prompt="on", threadId=first["structuredContent"]["threadId"])
        said = told(model.requests[-1])
    assert SECRET not in str(said)
    assert (place.project / "a.txt").read_text() == f"one {SECRET}\n"


@pytest.mark.slow
async def test_a_folder_that_becomes_a_link_while_it_is_searched_leads_nowhere(place: House) -> None:
    """Somebody exchanges a folder for a link to a masked one, over and over, while the tools look at it."""
    inner = place.project / "src"
    (inner / "id_ed25519").write_text("harmless\n")
    aside = place.project / "aside"
    calls: Calls = {
        f"{number}": ("search", {"pattern": "KEY|harmless", "path": path}) for number, path in enumerate(["src", "."] * 8)
    }
    calls |= {f"r{number}": ("read_file", {"path": "src/id_ed25519"}) for number in range(8)}
    stop = False

    def exchange() -> None:
        while not stop:
            inner.rename(aside)
            inner.symlink_to(place.home / ".ssh")
            inner.unlink()
            aside.rename(inner)

    exchanging = asyncio.create_task(asyncio.to_thread(exchange))
    try:
        said = await outcomes(calls, place, NEVER)
    finally:
        stop = True
        await exchanging
    assert SSH_KEY not in str(said)


@pytest.mark.slow
async def test_pipes_devices_and_floods_hold_nobody_up(place: House) -> None:
    os.mkfifo(place.project / "pipe")
    (place.project / "zero").symlink_to("/dev/zero")
    (place.project / ".gitignore").symlink_to("/dev/zero")
    (place.project / "flood").write_text("x" * 200 + "\n" + "needle\n" * 300_000)
    for number in range(300):
        (place.project / "src" / f"{'long-name-' * 20}{number}").touch()
    calls = (
        look("pipe")
        | look("zero")
        | look("flood")
        | {
            "all": ("search", {"pattern": "needle", "max_results": 100_000_000}),
            "tree": ("list_files", {"depth": 10**9}),
            "lines": ("read_file", {"path": "flood", "start_line": -5, "end_line": 10**15}),
        }
    )
    calls.pop("fill pipe")
    calls.pop("edit flood")
    said = await outcomes(calls, place, NEVER)
    assert max(map(len, said.values())) < 40_000
    assert "not a regular file" in said["read pipe"]
    assert "needle" in said["all"]
    assert "go on with start_line" in said["lines"]


@pytest.mark.slow
async def test_a_pattern_without_end_ends(place: House) -> None:
    (place.project / "a.txt").write_text("a" * 60 + "!\n")
    calls: Calls = {"slow": ("search", {"pattern": "(a|aa)+$", "path": "a.txt"}), "quick": ("search", {"pattern": "a+!"})}
    said = await outcomes(calls, place, NEVER)
    assert said["slow"] == "[the pattern takes too long in a.txt: simplify it; there may be more matches]"
    assert "a.txt:1:" in said["quick"]


async def test_a_search_that_is_interrupted_leaves_no_process(place: House) -> None:
    (place.project / "a.txt").write_text("a" * 60 + "!\n")
    async with besieged([call("search", call_id="c", pattern="(a|aa)+$")], place, NEVER) as (_, client):
        reply = client.codex("go")
        await client.event("mcp_tool_call_begin")
        await client.cancel(reply)
        await reply
        assert _workers(client.process.pid) == []


def _workers(parent: int) -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
            words = (path.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == parent and "look_worker" in words:
            found.append(words)
    return found
