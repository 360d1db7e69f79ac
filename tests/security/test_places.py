"""Roots, masks and protected names stand where the conversation began, whatever anybody puts in their place since.

The real server, contained commands and patches; the user's other files are compared with what they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.security.house import ENV, NEVER, SSH_KEY, WITH_KEY, House, attacks, besieged, house, patch, script, told
from tests.support.contents import contents
from understudy.testing import McpProcess, ScriptedModel

ROOTS = "sandbox_workspace_write.writable_roots"
MASK = "understudy.sandbox.mask"
REPLACED = "is not what stood there when this conversation began"
LINKED = "symbolic link that this conversation did not begin with"
PROTECTED = "patch rejected: writing to a protected path; rejected by user approval settings"


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


async def turn(client: McpProcess, model: ScriptedModel, thread: str | None = None, **arguments: Any) -> tuple[str, dict[str, str]]:
    """One call of the client, to its end: the thread, and what the model was told of each of its calls."""
    given = {"prompt": "go", **arguments}
    result = await (client.call_tool("codex-reply", given | {"threadId": thread}) if thread else client.call_tool("codex", given))
    return result["structuredContent"]["threadId"], told(model.requests[-1])


def turns(*rounds: dict[str, tuple[str, dict[str, Any]]]) -> list[Any]:
    return [answer for calls in rounds for answer in attacks(calls)]


def link(place: House, name: str) -> None:
    (place.project / name).rename(place.home / "taken-away")
    (place.project / name).symlink_to(place.outside)


def other_folder(place: House, name: str) -> None:
    (place.project / name).rename(place.home / "taken-away")
    (place.project / name).mkdir()


REPLACEMENTS: list[tuple[Callable[[House, str], None], str]] = [(link, LINKED), (other_folder, REPLACED)]


@pytest.mark.quick(1)
@pytest.mark.parametrize(("replace", "words"), REPLACEMENTS, ids=["by a link", "by another folder"])
@pytest.mark.parametrize("as_cwd", [False, True], ids=["a root", "the working directory"])
async def test_an_inner_root_that_was_replaced_is_refused_by_door_and_cell(
    place: House, replace: Callable[[House, str], None], words: str, as_cwd: bool
) -> None:
    inner = place.project / "build"
    inner.mkdir()
    first = {"before": patch(f"*** Add File: {inner}/first", "+x")}
    second = {
        "patch": patch(f"*** Add File: {inner}/kept.txt", "+evil"),
        "relative": patch("*** Add File: kept.txt", "+evil"),
        "shell": script(f"echo evil > {inner}/shell.txt"),
        "heredoc": script(f"cd {inner} && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+evil\n*** End Patch\nEOF"),
    }
    if not as_cwd:
        del second["relative"]  # the outer root's
    third = {"after": patch(f"*** Add File: {inner}/second", "+x")}
    cwd = str(inner if as_cwd else place.project)
    config = {**NEVER, ROOTS: [str(place.project if as_cwd else inner)]}
    async with besieged(turns(first, second, third), place, config) as (model, client):
        thread, before = await turn(client, model, cwd=cwd)
        assert '"exit_code":0' in before["before"]
        replace(place, "build")
        kept = place.snapshot()
        _, refused = await turn(client, model, thread)
        assert {name: words in refused[name] for name in second} == dict.fromkeys(second, True)
        assert place.snapshot() == kept
        (inner.unlink if inner.is_symlink() else inner.rmdir)()
        (place.home / "taken-away").rename(inner)
        _, after = await turn(client, model, thread)
        assert '"exit_code":0' in after["after"]  # the conversation goes on with what it began with


@pytest.mark.slow
async def test_a_command_cannot_turn_an_inner_root_or_the_way_to_it_into_a_link(place: House) -> None:
    inner = place.project / "a" / "b" / "build"
    inner.mkdir(parents=True)
    calls = {
        "itself": script(f"mv a/b/build moved; rm -rf a/b/build; ln -sfn {place.outside} a/b/build"),
        "parent": script(f"mv a/b moved; mkdir a/b; ln -s {place.outside} a/b/build"),
        "grandparent": script(f"mv a moved; ln -s {place.outside} a"),
        "patch": patch(f"*** Add File: {inner}/evil", "+evil"),
    }
    async with besieged(turns(calls), place, {**NEVER, ROOTS: [str(inner)]}) as (model, client):
        kept = (place.outside / "kept.txt").read_bytes(), os.listdir(place.outside)
        _, outcomes = await turn(client, model, cwd=str(place.project))
        assert [inner.is_dir(), (place.project / "a").is_symlink(), inner.is_symlink()] == [True, False, False]
        assert '"exit_code":0' in outcomes["patch"]
        assert ((place.outside / "kept.txt").read_bytes(), os.listdir(place.outside)) == kept


@pytest.mark.quick(1)
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_a_conversation_cannot_lead_another_ones_root_astray(place: House, restarted: bool) -> None:
    """One works in the project and exchanges the folder that is the other one's root, or a folder above it."""
    (place.project / "a" / "sub").mkdir(parents=True)
    sub = str(place.project / "a" / "sub")
    attack = {"swap": script(f"mv a old && mkdir a && ln -s {place.outside} a/sub && ls -d old/sub")}
    writes = {"patch": patch("*** Add File: evil", "+evil"), "shell": script("echo evil > evil2; echo evil > kept.txt")}
    answers = turns({"begin": script("touch begun")}, attack, writes)
    async with ScriptedModel(answers) as model:
        settings = {**WITH_KEY, **NEVER}
        async with McpProcess(model.url, cwd=place.project, home=place.settings, config=settings, env=ENV) as client:
            victim, _ = await turn(client, model, cwd=sub)
            _, swapped = await turn(client, model, cwd=str(place.project))
            assert '"exit_code":0' in swapped["swap"]
            if restarted:
                await client.kill()
                async with McpProcess(model.url, cwd=place.project, home=place.settings, config=settings, env=ENV) as second:
                    kept = place.snapshot()
                    _, refused = await turn(second, model, victim)
            else:
                kept = place.snapshot()
                _, refused = await turn(client, model, victim)
        assert {name: LINKED in text for name, text in refused.items() if name in writes} == dict.fromkeys(writes, True)
        assert place.snapshot() == kept


@pytest.mark.slow
async def test_a_project_inside_a_larger_root_keeps_its_own_protected_names(place: House) -> None:
    calls = {
        "hook": script("printf evil > .git/hooks/post-commit"),
        "config": script("git config core.fsmonitor evil"),
        "codex": script("mkdir .codex"),
        "servers": script("echo {} > .mcp.json"),
        "move": script("mv .git gone"),
        "parent": script("mv ../project ../moved"),
        "fine": script("touch made ../beside"),
        "elsewhere": script("mkdir -p ../other/.codex && ls ../other", workdir="src"),
    }
    async with besieged(turns(calls), place, {**NEVER, ROOTS: [str(place.home)]}) as (model, client):
        _, outcomes = await turn(client, model, cwd=str(place.project))
        assert '"exit_code":0,' in outcomes["fine"]
        for name in ("hook", "config", "codex", "servers", "move", "parent"):
            assert '"exit_code":0,' not in outcomes[name], name
    assert not (place.project / ".codex").exists()
    assert not (place.project / ".git" / "hooks" / "post-commit").exists()


async def test_a_link_that_the_user_chose_is_followed_once(place: House) -> None:
    (place.home / "link").symlink_to(place.project)
    first = {"write": script("touch made"), "patch": patch(f"*** Add File: {place.home}/link/patched", "+x")}
    second = {"again": script("touch again"), "door": patch(f"*** Add File: {place.home}/link/door", "+x")}
    async with besieged(turns(first, second), place) as (model, client):
        thread, outcomes = await turn(client, model, cwd=str(place.home / "link"))
        assert ['"exit_code":0' in text for text in outcomes.values()] == [True, True]
        (place.home / "link").unlink()
        (place.home / "link").symlink_to(place.outside)
        await turn(client, model, thread)
        assert sorted(name for name in os.listdir(place.project) if name[0] != ".") == sorted(
            ["a.txt", "again", "door", "made", "patched", "src"]
        )
        assert os.listdir(place.outside) == ["kept.txt"]


async def test_a_root_that_is_not_there_yet_is_not_followed_when_a_link_appears(place: House) -> None:
    later = place.project / "later"
    first, second = (
        {"none": script("true")},
        {"patch": patch("*** Add File: later/evil", "+x"), "shell": script("echo x > later/evil")},
    )
    async with besieged(turns(first, second), place, {**NEVER, ROOTS: [str(later)]}) as (model, client):
        thread, _ = await turn(client, model)
        later.symlink_to(place.outside)
        _, outcomes = await turn(client, model, thread)
        assert ["symbolic link" in outcomes[name] for name in second] == [True, True]
        assert os.listdir(place.outside) == ["kept.txt"]


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "lines",
    [
        ("*** Update File: secret.env", "*** Move to: readable", "@@", f"-{SSH_KEY}", "+x"),
        ("*** Update File: a.txt", "*** Move to: secret.env", "@@", "-one", "+x"),
        ("*** Update File: secret.env", "@@", "-guess", "+x"),
        ("*** Delete File: secret.env",),
        ("*** Add File: secret.env", "+x"),
        ("*** Add File: vault/new", "+x"),
        ("*** Update File: vault/key", "*** Move to: readable", "@@", f"-{SSH_KEY}", "+x"),
        ("*** Delete File: vault/key",),
        ("*** Update File: second-name", "*** Move to: readable", "@@", f"-{SSH_KEY}", "+x"),
        ("*** Delete File: third-name",),
    ],
    ids=lambda lines: " ".join(lines[:2]),
)
async def test_no_patch_moves_changes_or_shows_a_masked_file(place: House, lines: tuple[str, ...]) -> None:
    (place.project / "secret.env").write_text(SSH_KEY + "\n")
    (place.project / "vault").mkdir()
    (place.project / "vault" / "key").write_text(SSH_KEY + "\n")
    os.link(place.project / "secret.env", place.project / "second-name")
    os.link(place.project / "vault" / "key", place.project / "third-name")
    async with besieged(turns({"patch": patch(*lines)}), place, {**NEVER, MASK: ["secret.env", "vault"]}) as (model, client):
        kept = place.snapshot()
        _, outcomes = await turn(client, model)
        assert outcomes["patch"].startswith(PROTECTED)
        assert "is masked" in outcomes["patch"]
        assert place.snapshot() == kept
        assert SSH_KEY not in str(client.frames)
    logs = [data for path, data in contents(place.settings).items() if path.name.startswith("log")]
    assert SSH_KEY.encode() not in b"".join(logs)


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["link", "link through a folder", "hard link", "hard link into a folder", "the home's own"])
async def test_no_agents_md_leads_to_a_masked_file(place: House, how: str) -> None:
    vault = place.project / "vault"
    vault.mkdir()
    (vault / "key").write_text(SSH_KEY)
    (place.project / "secret.env").write_text(SSH_KEY)
    doc = place.project / "AGENTS.md"
    match how:
        case "link":
            doc.symlink_to("secret.env")
        case "link through a folder":
            (place.project / "door").symlink_to("vault")
            doc.symlink_to("door/../vault/./key")
        case "hard link":
            os.link(place.project / "secret.env", doc)
        case "hard link into a folder":
            os.link(vault / "key", doc)
        case _:
            (place.settings / "AGENTS.md").symlink_to(place.home / ".ssh" / "id_ed25519")
    config = {**NEVER, MASK: ["secret.env", "vault", str(place.home / ".ssh")], "project_doc_max_bytes": 4096}
    async with besieged(turns({"none": script("true")}), place, config) as (model, client):
        await turn(client, model)
        assert SSH_KEY not in str(model.requests)


async def test_the_parents_of_a_masked_path_cannot_be_renamed_away(place: House) -> None:
    vault = place.project / "conf" / "deep"
    vault.mkdir(parents=True)
    (vault / "key").write_text(SSH_KEY)
    calls = {
        "grandparent": script("mv conf other; cat other/deep/key conf/deep/key"),
        "parent": script("mv conf/deep conf/other; cat conf/other/key conf/deep/key"),
        "itself": script("mv conf/deep/key readable; ln conf/deep/key readable; cat readable conf/deep/key"),
        "again": script("grep -rs PRIVATE . ; find . -type f -exec cat {} +"),
    }
    async with besieged(turns(calls), place, {**NEVER, MASK: ["conf/deep/key"]}) as (model, client):
        _, outcomes = await turn(client, model)
        assert SSH_KEY not in str(outcomes)
        assert SSH_KEY not in str(client.frames)
        assert (vault / "key").read_text() == SSH_KEY


async def test_a_masked_file_that_is_replaced_under_a_running_command_is_not_passed_on(place: House) -> None:
    """The mount over it falls off then: the kernel has none that stays."""
    secret = place.project / "secret.env"
    secret.write_text("old")
    waiting = script("echo ready; while [ ! -e go ]; do :; done; cat secret.env; echo looked", timeout=20000)
    later = script("cat secret.env; echo again")
    async with besieged(turns({"first": waiting, "second": later}), place, {**NEVER, MASK: ["secret.env"]}) as (model, client):
        call = client.call_tool("codex", prompt="go")
        await client.event("exec_command_output_delta", call)
        (place.project / "new").write_text(SSH_KEY)
        (place.project / "new").rename(secret)
        (place.project / "go").touch()
        await call
        outcomes = told(model.requests[-1])
        assert "is masked and was replaced while the command ran" in outcomes["first"]
        assert "again" in outcomes["second"]
        assert SSH_KEY not in str(model.requests) + str(client.frames)


PLANTED = {
    ".gitmodules": "echo x > .gitmodules",
    ".vscode": "mkdir .vscode && echo x > .vscode/tasks.json",
    ".idea": "mkdir .idea",
    ".envrc": "echo x > .envrc",
    ".bashrc": "echo x > .bashrc",
}


@pytest.mark.slow
@pytest.mark.parametrize("opened", [False, True], ids=["by default", "opened"])
async def test_files_that_other_programs_obey_are_protected_and_can_be_opened(place: House, opened: bool) -> None:
    (place.project / ".bashrc").write_text("kept")
    shells = {f"shell {name}": script(text) for name, text in PLANTED.items()}
    patches = {f"patch {name}": patch(f"*** Add File: src/{name}/x", "+x") for name in PLANTED}
    config = {**NEVER, "understudy.sandbox.protect": [f"!{name}" for name in PLANTED]} if opened else NEVER
    async with besieged(turns(shells | patches), place, config) as (model, client):
        _, outcomes = await turn(client, model)
        done = {name for name, text in outcomes.items() if '"exit_code":0' in text}
        assert done == ({*shells, *patches} if opened else set())


@pytest.mark.slow
async def test_git_and_tests_work_beside_protected_names(place: House) -> None:
    calls = {
        "status": script("git status --porcelain"),
        "diff": script("git diff --stat; git submodule status; git ls-files -o"),
        "tests": script("mkdir -p t && echo 'import unittest' > t/test_x.py && python3 -m unittest discover -s t; ls -a"),
    }
    async with besieged(turns(calls), place) as (model, client):
        _, outcomes = await turn(client, model)
        assert "?? a.txt" in outcomes["status"]
        assert "fatal" not in str(outcomes)
        assert "error" not in outcomes["status"]


@pytest.mark.slow
@pytest.mark.parametrize("by_shell", [(), ("HEAD",), ("objects", "refs")], ids=["by patch", "HEAD by shell", "folders by shell"])
async def test_no_patch_completes_a_repository_without_a_git_folder(place: House, by_shell: tuple[str, ...]) -> None:
    """The user's own git would take it for one, and run what its configuration says."""
    lines: list[str] = []
    for name, path in (("HEAD", "HEAD"), ("objects", "objects/x"), ("refs", "refs/x")):
        if name not in by_shell:
            lines += [f"*** Add File: src/deep/{path}", "+ref: refs/heads/main"]
    prepared = " ".join(f"src/deep/{name}" for name in by_shell if name != "HEAD") or "src/deep"
    calls = {
        "shell": script(f"mkdir -p src/deep {prepared}; {'echo ref > src/deep/HEAD' if 'HEAD' in by_shell else 'true'}"),
        "alone": patch("*** Add File: src/other/HEAD", "+x"),
        "whole": patch(*lines, "*** Add File: src/deep/config", "+[core]"),
    }
    async with besieged(turns(calls), place) as (model, client):
        _, outcomes = await turn(client, model)
        assert '"exit_code":0' in outcomes["alone"]
        assert outcomes["whole"].startswith(PROTECTED)
        assert "would be part of a git repository that has no .git" in outcomes["whole"]
