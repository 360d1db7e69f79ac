"""What a contained command sees and may change: roots, its own /tmp, masks, protected names."""

import asyncio
import dataclasses
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, run
from understudy.places.resolving import resolve_places
from understudy.protocol.choices import NetworkMode, SandboxMode
from understudy.sandbox import Command, Containment, Sandbox


async def shell(sandbox: Sandbox, containment: Containment, script: str, *, cwd: Path | str | None = None) -> tuple[int, str]:
    """Exit code and both streams."""
    folder = cwd if cwd is not None else containment.writable_roots[0]
    result, output = await run(sandbox, containment, "bash", "-c", f"exec 2>&1; {script}", cwd=folder)
    assert result.setup_error is None, result.setup_error
    return result.exit_code, output.text()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def git(*words: str, cwd: Path) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=cwd, check=True, capture_output=True)


class TestRoots:
    async def test_a_workspace_can_be_written_and_nothing_beside_it(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace.parent / "beside").mkdir()
        code, text = await shell(sandbox, contained, "touch in ../beside/out; chmod 700 /etc; mkdir /opt/x")
        assert code != 0
        assert "chmod: changing permissions of '/etc': Read-only file system" in text
        assert names(workspace) == ["in"]
        assert names(workspace.parent / "beside") == []

    async def test_read_only_mode_lets_only_the_private_folder_be_written(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / "file").write_text("content")
        reading = dataclasses.replace(contained, mode="read-only", writable_roots=(), workspace=str(workspace))
        script = "cat file; touch new; chmod 600 file; touch -d yesterday file; rm file; echo x > file; touch /tmp/ok && echo tmp"
        before = (workspace / "file").stat()
        _, text = await shell(sandbox, reading, script, cwd=workspace)
        assert text.startswith("content")
        assert text.endswith("tmp\n")
        assert names(workspace) == ["file"]
        assert (workspace / "file").stat() == before

    async def test_a_root_that_is_a_link_is_the_folder_it_points_to(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        real = workspace.parent / "real"
        real.mkdir()
        (workspace.parent / "link").symlink_to(real)
        linked = dataclasses.replace(contained, writable_roots=(str(workspace.parent / "link"),))
        assert (await shell(sandbox, linked, "touch made; mkdir .codex", cwd=real))[0] != 0
        assert names(real) == ["made"]

    async def test_a_root_inside_another_cannot_be_turned_into_a_way_out(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / "sub").mkdir()
        outside = workspace.parent / "outside"
        outside.mkdir()
        both = dataclasses.replace(contained, writable_roots=(str(workspace), str(workspace / "sub")))
        before = resolve_places(both.writable_roots)
        code, text = await shell(sandbox, both, f"rmdir sub && ln -s {outside} sub")
        assert (code, "busy" in text) == (1, True)
        (workspace / "sub").rmdir()
        (workspace / "sub").symlink_to(outside)  # somebody else's hand
        pinned = dataclasses.replace(both, pinned=tuple(before))
        result, _ = await run(sandbox, pinned, "touch", "sub/escaped", cwd=workspace)
        assert "did not begin with" in (result.setup_error or "")
        result, _ = await run(sandbox, both, "touch", "sub/escaped", cwd=workspace)  # nor where nothing is pinned
        assert result.setup_error is not None
        assert names(outside) == []

    async def test_a_root_that_does_not_exist_or_is_a_file_does_no_harm(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        single = workspace.parent / "single"
        single.write_text("before")
        odd = dataclasses.replace(contained, writable_roots=(str(workspace), "/nonexistent/root", str(single)))
        assert await shell(sandbox, odd, f"echo after > {single}; touch ok") == (0, "")
        assert single.read_text() == "after\n"

    async def test_a_root_in_a_folder_for_shared_memory_stays_where_it_is(self, sandbox: Sandbox, contained: Containment) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            there = dataclasses.replace(contained, writable_roots=(folder,))
            assert await shell(sandbox, there, "touch made; ls /dev/shm | wc -l") == (0, "1\n")
            assert os.listdir(folder) == ["made"]

    async def test_a_root_in_a_covered_folder_is_there_though_everything_is_a_root(
        self, sandbox: Sandbox, contained: Containment
    ) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            there = dataclasses.replace(contained, writable_roots=(folder, "/"), protected=("kept",))
            assert await shell(sandbox, there, "touch made; mkdir kept 2> /dev/null || ls /dev/shm | wc -l") == (0, "1\n")
            assert "Read-only" in (await shell(sandbox, there, "touch kept/it"))[1]
            assert os.listdir(folder) == ["made"]

    @pytest.mark.parametrize("group", [None, 54321], ids=["own group", "another group"])
    async def test_protected_names_cannot_be_made_in_a_root_that_its_owner_made_read_only(
        self, sandbox: Sandbox, contained: Containment, workspace: Path, group: int | None
    ) -> None:
        if group is not None:
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder to a group of others: run the tests as root for it")
            os.chown(workspace, -1, group)
        workspace.chmod(0o555)
        code, text = await shell(sandbox, contained, "chmod 755 . && touch made; mkdir .codex && echo escaped; chmod 555 .")
        assert (code, "escaped" in text) == (0, False)
        assert (names(workspace), workspace.stat().st_mode & 0o777) == (["made"], 0o555)  # and nothing is left of us

    async def test_setuid_files_cannot_be_made(self, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
        code, text = await shell(sandbox, contained, "cp /bin/true t; chmod u+s t; chmod 4755 t; stat -c %a t")
        assert (code, text.splitlines()[-1]) == (0, "755")


class TestTemporary:
    async def test_tmp_belongs_to_the_conversation_and_is_kept(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        other = workspace.parent / "other-private"
        other.mkdir()
        foreign = dataclasses.replace(contained, private_tmp=str(other))
        with tempfile.NamedTemporaryFile(dir="/tmp", prefix="host-") as host:
            assert await shell(sandbox, contained, "echo mine > /tmp/note") == (0, "")
            assert await shell(sandbox, contained, "cat /tmp/note") == (0, "mine\n")
            code, text = await shell(sandbox, foreign, f"cat /tmp/note; ls -d {host.name}")
            assert code != 0
            assert "mine" not in text
            assert "No such file" in text
        assert contained.private_tmp is not None
        assert (Path(contained.private_tmp) / "note").read_text() == "mine\n"

    async def test_a_temporary_folder_from_outside_is_replaced(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        _, output = await run(
            sandbox, contained, "sh", "-c", 'mktemp; echo "$TMPDIR"', cwd=workspace, env={"TMPDIR": "/somewhere/else"}
        )
        first, second = output.text().splitlines()
        assert first.startswith("/tmp/tmp.")
        assert second == "/tmp"

    async def test_a_workspace_that_is_tmp_itself_is_the_real_one(self, sandbox: Sandbox, contained: Containment) -> None:
        with tempfile.NamedTemporaryFile(dir="/tmp", prefix="host-") as host:
            real = dataclasses.replace(contained, mode="read-only", writable_roots=(), workspace="/tmp")
            assert (await shell(sandbox, real, f"ls {host.name}; touch /tmp/host-new || echo refused", cwd="/tmp"))[1].endswith(
                "refused\n"
            )

    async def test_a_command_may_start_in_tmp(self, sandbox: Sandbox, contained: Containment) -> None:
        assert await shell(sandbox, contained, "touch here; pwd", cwd="/tmp") == (0, "/tmp\n")

    async def test_a_folder_that_the_model_names_does_not_uncover_the_real_tmp(
        self, sandbox: Sandbox, contained: Containment
    ) -> None:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="host-") as host:
            result, _ = await run(sandbox, contained, "ls", cwd=host)
            assert (result.exit_code, result.spawn_error) == (125, "No such file or directory (os error 2)")


class TestMasks:
    async def test_masked_folders_and_files_look_empty(self, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
        secrets = workspace.parent / "secrets"
        secrets.mkdir()
        (secrets / "key").write_text("SECRET")
        token = workspace.parent / "token"
        token.write_text("SECRET")
        (workspace.parent / "alias").symlink_to(secrets)
        masked = dataclasses.replace(contained, masked=(str(workspace.parent / "alias"), str(token), "/nonexistent/mask"))
        script = (
            f"ls -A {secrets}; cat {token} {secrets}/key; touch {secrets}/new; echo x > {token}; ls -A {workspace.parent}/alias/"
        )
        _, text = await shell(sandbox, masked, script)
        assert "SECRET" not in text
        assert (names(secrets), token.read_text()) == (["key"], "SECRET")

    async def test_a_mask_inside_a_root_stays_even_if_its_folder_is_moved(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / "deep" / "keys").mkdir(parents=True)
        (workspace / "deep" / "keys" / "id").write_text("SECRET")
        masked = dataclasses.replace(contained, masked=(str(workspace / "deep" / "keys"),))
        _, text = await shell(
            sandbox, masked, "mv deep elsewhere; cat elsewhere/keys/id deep/keys/id; mv elsewhere/keys k; cat k/id"
        )
        assert "SECRET" not in text

    async def test_the_private_folder_may_lie_in_a_masked_one(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        store = workspace.parent / "store"
        (store / "tmp").mkdir(parents=True)
        (store / "log").write_text("SECRET")
        inside = dataclasses.replace(contained, masked=(str(store),), private_tmp=str(store / "tmp"))
        _, text = await shell(sandbox, inside, f"echo kept > /tmp/note; ls -A {store}; cat {store}/log")
        assert "SECRET" not in text
        assert (store / "tmp" / "note").read_text() == "kept\n"

    async def test_sockets_outside_are_out_of_reach_even_with_a_network(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as renamed:
            server.bind(str(folder / "agent.sock"))
            renamed.bind(str(folder / "before"))
            (folder / "before").rename(folder / "after")
            server.listen()
            renamed.listen()
            script = f"""
import socket
for path in ({str(folder / "agent.sock")!r}, {str(folder / "after")!r}):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try: socket.socket(socket.AF_UNIX, kind).connect(path)
        except PermissionError: print("refused")
"""
            networks: tuple[NetworkMode, ...] = ("loopback", "on")
            for network in networks:
                opened = dataclasses.replace(contained, network=network)
                _, output = await run(sandbox, opened, "python3", "-c", script, cwd=workspace)
                assert output.text() == "refused\n" * 8
        shutil.rmtree(folder)

    async def test_the_machines_run_folder_is_empty(self, sandbox: Sandbox, contained: Containment) -> None:
        assert (await shell(sandbox, contained, "ls -A /run | wc -l"))[1] == "0\n"

    async def test_only_its_own_processes_and_harmless_devices_are_there(self, sandbox: Sandbox, contained: Containment) -> None:
        assert (await shell(sandbox, contained, "ls /proc | grep -c '^[0-9]'"))[1].strip() in ("3", "4", "5")
        expected = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
        assert (await shell(sandbox, contained, "echo $(ls /dev)"))[1].strip() == expected


class TestProtected:
    async def test_an_existing_folder_can_be_read_and_not_changed(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / ".git" / "hooks").mkdir(parents=True)
        (workspace / ".git" / "config").write_text("[core]")
        script = (
            "cat .git/config; echo x > .git/config; touch .git/hooks/x; mv .git g; rm -rf .git; chmod 700 .git; ln -f .git/config c"
        )
        _, text = await shell(sandbox, contained, script)
        assert text.startswith("[core]")
        assert (workspace / ".git" / "config").read_text() == "[core]"
        assert names(workspace) == [".git"]
        assert names(workspace / ".git" / "hooks") == []

    @pytest.mark.parametrize("named", ["", "..", "../link"], ids=["itself", "above", "by a link"])
    async def test_a_root_that_is_protected_or_lies_in_what_is_can_be_read_and_not_written(
        self, sandbox: Sandbox, contained: Containment, workspace: Path, named: str
    ) -> None:
        (workspace / "file").write_text("content")
        (workspace.parent / "link").symlink_to(workspace.parent)
        kept = dataclasses.replace(contained, protected=(".git", os.path.join(workspace, named)))
        _, text = await shell(sandbox, kept, "cat file; touch made; rm file; touch /tmp/ok && echo tmp")
        assert text.startswith("content")
        assert text.endswith("tmp\n")
        assert names(workspace) == ["file"]

    async def test_a_missing_name_cannot_be_made_in_any_way_and_nothing_stays(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        script = """
        mkdir .codex; echo x > .mcp.json; ln -s /etc .agents; touch f; mv f .codex; mkdir d; mv -T d .agents
        echo x > .codex/config.toml; ln f .mcp.json; rmdir .codex; mv .codex .other; cp -r d .codex/; git init -q .
        """
        await shell(sandbox, contained, script)
        assert not {".codex", ".mcp.json", ".agents", ".git", ".other"} & set(names(workspace))

    async def test_parallel_commands_share_the_cover_and_the_last_one_removes_it(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        another = Sandbox()  # as another server in the same workspace would
        first, second = Output(), Output()
        script = "echo up; until [ -e {0} ]; do sleep 0.01; done; mkdir .codex && echo made; touch .codex/x && echo filled"
        tasks = [
            asyncio.create_task(owner.run(Command(("sh", "-c", script.format(name)), str(workspace), ENV, 20, contained), output))
            for owner, name, output in ((sandbox, "go1", first), (another, "go2", second))
        ]
        for output in (first, second):
            await output.until("up")
        (workspace / "go1").touch()
        await asyncio.wait_for(tasks[0], BOUND)
        assert (workspace / ".codex").exists(), "still held by the second command"
        (workspace / "go2").touch()
        await asyncio.wait_for(tasks[1], BOUND)
        await another.close()
        assert (first.text(), second.text()) == ("up\n", "up\n")
        assert names(workspace) == ["go1", "go2"]

    async def test_what_a_crash_left_is_removed_by_the_next_command(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        os.mkdir(workspace / ".codex", 0o1700)
        assert (await shell(sandbox, contained, "mkdir .codex"))[0] != 0
        assert names(workspace) == []

    async def test_what_a_user_puts_there_meanwhile_stays(self, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
        output = Output()
        script = "echo up; until [ -e go ]; do sleep 0.01; done; ls -A .codex"
        task = asyncio.create_task(sandbox.run(Command(("sh", "-c", script), str(workspace), ENV, 20, contained), output))
        await output.until("up")
        (workspace / ".codex" / "config.toml").write_text("model = 'x'")
        (workspace / "go").touch()
        await asyncio.wait_for(task, BOUND)
        assert (workspace / ".codex" / "config.toml").read_text() == "model = 'x'"
        assert (await shell(sandbox, contained, "cat .codex/config.toml; echo y > .codex/config.toml"))[1].startswith("model = 'x'")

    async def test_a_link_is_kept_with_what_it_points_to(self, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
        (workspace / "dotfiles").mkdir()
        (workspace / "dotfiles" / "config").write_text("before")
        (workspace / ".codex").symlink_to("dotfiles")
        (workspace / ".agents").symlink_to("nowhere/at/all")
        script = """
        rm .codex; ln -sfn /etc .codex; mv .codex c; echo x > .codex/config; echo x > dotfiles/config; mv dotfiles d
        mkdir -p nowhere/at/all; rm .agents; touch nowhere
        """
        await shell(sandbox, contained, script)
        assert os.readlink(workspace / ".codex") == "dotfiles"
        assert os.readlink(workspace / ".agents") == "nowhere/at/all"
        assert (workspace / "dotfiles" / "config").read_text() == "before"
        assert names(workspace) == [".agents", ".codex", "dotfiles"]

    async def test_folders_on_the_way_to_a_protected_path_cannot_be_moved(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / "a" / "b").mkdir(parents=True)
        (workspace / "a" / "b" / "kept").write_text("before")
        kept = dataclasses.replace(contained, protected=("a/b/kept", str(workspace / "x" / "missing")))
        script = "mv a z; mv a/b a/z; echo x > a/b/kept; rm a/b/kept; touch a/b/free a/free; mkdir -p x/missing"
        await shell(sandbox, kept, script)
        assert names(workspace) == ["a"]
        assert names(workspace / "a") == ["b", "free"]
        assert names(workspace / "a" / "b") == ["free", "kept"]
        assert (workspace / "a" / "b" / "kept").read_text() == "before"

    async def test_the_repository_of_a_worktree_is_protected_with_its_pointer(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        git("init", "-q", "main", cwd=workspace)
        git("-C", "main", "commit", "-q", "--allow-empty", "-m", "x", cwd=workspace)
        git("-C", "main", "worktree", "add", "-q", "../tree", cwd=workspace)
        # The main repository lies in another root, as its parent does when somebody adds it.
        both = dataclasses.replace(contained, writable_roots=(str(workspace / "tree"), str(workspace)))
        inner = dataclasses.replace(contained, writable_roots=(str(workspace / "tree"), str(workspace / "main")))
        for chosen in (inner, both):
            code, text = await shell(sandbox, chosen, "git status --short; git log --oneline | wc -l", cwd=workspace / "tree")
            assert (code, text) == (0, "1\n")
        await shell(
            sandbox,
            inner,
            "echo x >> .git; touch ../main/.git/hooks/x; touch ../main/.git/worktrees/tree/x",
            cwd=workspace / "tree",
        )
        assert not (workspace / "main" / ".git" / "hooks" / "x").exists()
        assert not (workspace / "main" / ".git" / "worktrees" / "tree" / "x").exists()

    async def test_opening_git_lets_a_commit_through(self, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
        git("init", "-q", cwd=workspace)
        opened = dataclasses.replace(contained, protected=(".codex",))
        script = "git -c user.name=n -c user.email=e@x commit -q --allow-empty -m x && git log --oneline | wc -l"
        assert await shell(sandbox, opened, script) == (0, "1\n")


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_a_command_knows_no_root_and_has_no_power(
    sandbox: Sandbox, contained: Containment, workspace: Path, mode: SandboxMode
) -> None:
    chosen = dataclasses.replace(contained, mode=mode)
    _, text = await shell(
        sandbox, chosen, "id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | cut -f2 | sort -u", cwd=workspace
    )
    uid, *values = text.split()
    assert uid != "0"
    assert values == ["0000000000000000", "1", "2"]
