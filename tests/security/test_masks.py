"""Masked and protected paths that lie in a writable root, under another protected name, or behind links."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.security.house import (
    ENV,
    LOGIN,
    NEVER,
    SSH_KEY,
    WITH_KEY,
    House,
    attacks,
    besieged,
    house,
    patch,
    script,
    told,
)
from understudy.testing import McpProcess, ScriptedModel

ROOTS = "sandbox_workspace_write.writable_roots"
MASK = "understudy.sandbox.mask"
SECRET = "SECRET-OF-THE-MASK"


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


def look_around(settings: Path, home: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "read": script(
            f"cat {settings}/auth.json {settings}/config.toml {home}/.ssh/id_ed25519; head -c 16 {settings}/understudy/*"
        ),
        "write": script(
            f"echo EVIL > {settings}/AGENTS.md; echo EVIL >> {settings}/config.toml; echo EVIL > {settings}/understudy/x"
        ),
        "move": script(f"mv {settings} {settings}-moved; mv {settings}/understudy {settings}/moved; ls {settings}"),
    }


@pytest.mark.quick(1)
@pytest.mark.parametrize("as_cwd", [True, False], ids=["the working directory", "another root"])
async def test_our_own_files_are_out_of_reach_where_the_whole_home_is_writable(place: House, as_cwd: bool) -> None:
    config = NEVER if as_cwd else {**NEVER, ROOTS: [str(place.home)]}
    async with besieged(attacks(look_around(place.settings, place.home)), place, config) as (model, client):
        kept = place.snapshot()
        await client.call_tool("codex", prompt="go", cwd=str(place.home if as_cwd else place.project))
        outcomes = str(told(model.requests[-1]))
        assert [word for word in (LOGIN, SSH_KEY, "model_provider", "SQLite format") if word in outcomes] == []
    assert place.snapshot() == kept


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False], ids=["named by CODEX_HOME", "found by itself"])
async def test_our_own_files_are_out_of_reach_where_a_link_leads_to_them_in_a_root(place: House, named: bool) -> None:
    """As with settings that are kept in a repository of their own, in which somebody works."""
    dotfiles = place.home / "dotfiles"
    dotfiles.mkdir()
    place.settings.rename(dotfiles / "codex")
    place.settings.symlink_to(dotfiles / "codex")
    env = ENV if named else {**ENV, "CODEX_HOME": ""}
    calls = {**look_around(dotfiles / "codex", place.home), "patch": patch("*** Add File: codex/AGENTS.md", "+EVIL")}
    async with (
        ScriptedModel(attacks(calls)) as model,
        McpProcess(model.url, cwd=dotfiles, home=place.settings, config={**WITH_KEY, **NEVER}, env=env) as client,
    ):
        await client.call_tool("codex", prompt="go")
        outcomes = told(model.requests[-1])
    assert [word for word in (LOGIN, SSH_KEY, "model_provider", "SQLite format") if word in str(outcomes)] == []
    assert "protected path" in outcomes["patch"]
    assert not (dotfiles / "codex" / "AGENTS.md").exists()
    assert place.settings.is_symlink()


def to_a_file(place: House) -> tuple[str, Path]:
    secret = place.outside / "secret"
    (place.project / "named").symlink_to(secret)
    return "named", secret


def to_a_folder(place: House) -> tuple[str, Path]:
    (place.outside / "folder").mkdir()
    (place.project / "named").symlink_to(place.outside / "folder")
    return "named/secret", place.outside / "folder" / "secret"


def inside_the_root(place: House) -> tuple[str, Path]:
    (place.project / "real").mkdir()
    (place.project / "named").symlink_to("real")
    return "named/secret", place.project / "real" / "secret"


def over_several(place: House) -> tuple[str, Path]:
    (place.project / "src" / "named").symlink_to(place.outside / "secret")
    (place.outside / "back").symlink_to(place.project / "src" / "named")
    return str(place.outside / "back"), place.outside / "secret"


@pytest.mark.quick(1)
@pytest.mark.parametrize("lay", [to_a_file, to_a_folder, inside_the_root, over_several])
async def test_a_mask_that_is_named_through_a_link_stays_where_it_was(place: House, lay: Any) -> None:
    """Otherwise the mask of the next command, or of the next conversation, would be somewhere else."""
    named, secret = lay(place)
    secret.write_text(SECRET)
    swap = "for it in named src/named; do rm -f $it; mkdir $it; mv $it moved; touch $it; done; mv src away; mv real gone; true"
    calls = {"swap": script(swap), "read": script(f"cat {secret} {named}; grep -r SECRET-OF . 2>/dev/null")}
    answers = [*attacks(calls), *attacks({"afterwards": script(f"cat {secret} {named}; grep -r SECRET-OF . 2>/dev/null")})]
    async with besieged(answers, place, {**NEVER, MASK: [named]}) as (model, client):
        for _ in range(2):
            await client.call_tool("codex", prompt="go")
            assert SECRET not in str(told(model.requests[-1]))
    assert secret.read_text() == SECRET


@pytest.mark.slow
async def test_a_protected_name_behind_several_links_is_kept_with_all_of_them(place: House) -> None:
    (place.project / ".git").rename(place.project / "store")
    (place.project / "between").symlink_to("store")
    (place.project / ".git").symlink_to("between")
    swap = (
        "mkdir -p evil/hooks; rm between; ln -sfn evil between; mv between away; ln -s evil between; mv store away; rm .git; true"
    )
    async with besieged(attacks({"swap": script(swap)}), place) as (model, client):
        await client.call_tool("codex", prompt="go")
        assert '"exit_code":0' in told(model.requests[-1])["swap"]
    assert (place.project / ".git").resolve() == place.project / "store"


@pytest.mark.slow
async def test_a_lock_that_another_conversation_holds_keeps_no_command_waiting(place: House) -> None:
    """It makes what looks like our guard of a missing name, in the other one's root, and locks it."""
    sub = place.project / "sub"
    sub.mkdir()
    lock = script("mkdir -m 1700 sub/.codex; exec 9<sub/.codex; flock -x 9; echo locked; sleep 50", timeout=60_000)
    victim = {"made": script("mkdir .codex/x; echo fine", timeout=10_000)}
    async with ScriptedModel(attacks({"lock": lock})[:1]) as elsewhere, besieged(attacks(victim), place) as (model, client):
        holding = client.call_tool("codex", prompt="go", config={"model_providers.mock.base_url": elsewhere.url})
        await client.event("exec_command_output_delta", holding)
        await client.call_tool("codex", prompt="go", cwd=str(sub))
        outcome = told(model.requests[-1])["made"]
        await client.cancel(holding)
        await holding
    assert "Read-only file system" in outcome
    assert "fine" in outcome
    assert not (sub / ".codex" / "x").exists()
