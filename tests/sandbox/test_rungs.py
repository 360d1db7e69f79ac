"""Which rung is taken, and that the last one is a refusal."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.sandbox.arena import Arena, arena, drive, plain_python, probe
from tests.sandbox.stage import run
from tests.sandbox.test_probes import PLAIN, needs_bubblewrap, needs_root
from understudy.errors import SandboxError
from understudy.sandbox import Containment, Sandbox, describe_rungs
from understudy.sandbox.probe import Rung, choose, make_rung, rungs_from


def lacking(stage: Arena, *missing: str) -> tuple[str, ...]:
    return (plain_python(), "-I", str(stage.folder / "hobbled.py"), str(stage.folder / "library"), ",".join(missing))


def found(full: str, landlock: str, bubblewrap: str) -> tuple[Rung, ...]:
    return rungs_from({"full": full, "landlock": landlock, "notes": "landlock 7"}, bubblewrap)


def test_the_strongest_rung_that_works_is_taken() -> None:
    rungs = found("no user namespaces", "", "bwrap is not installed")
    assert choose(rungs, None).name == "landlock"
    assert choose(found("", "", ""), None).name == "full"
    assert choose(found("x", "x", ""), None).name == "bubblewrap"


def test_a_forced_rung_is_taken_or_refused_but_never_replaced() -> None:
    rungs = found("", "no Landlock", "")
    assert choose(rungs, "bubblewrap").name == "bubblewrap"
    with pytest.raises(SandboxError, match="no Landlock"):
        choose(rungs, "landlock")
    with pytest.raises(SandboxError, match="can be full, landlock, bubblewrap"):
        choose(rungs, "nonsense")


def test_a_refusal_says_what_was_tried_and_what_to_do() -> None:
    with pytest.raises(SandboxError) as refusal:
        choose(found("EPERM", "no Landlock", "bwrap is not installed"), None)
    text = str(refusal.value)
    for words in ("not run", "EPERM", "no Landlock", "install the package bubblewrap", "danger-full-access", "max_user_namespaces"):
        assert words in text


def test_every_rung_but_the_first_says_what_it_leaves_open() -> None:
    for name in ("landlock", "bubblewrap", "seatbelt"):
        assert make_rung(name, "").weaker
    assert make_rung("full", "").weaker == ()


def test_what_this_kernel_lacks_is_said_too() -> None:
    full, landlock, _ = rungs_from({"full": "", "landlock": "", "notes": "shared proc landlock 3"}, "")
    assert "visible in /proc" in full.weaker[0]
    assert "signalled" in landlock.weaker[-1]


def test_this_machine_is_described() -> None:
    rungs = describe_rungs()
    assert [rung.name for rung in rungs] == ["full", "landlock", "bubblewrap"]
    assert all(rung.available != bool(rung.reason) for rung in rungs)
    assert Sandbox().rung == next(rung for rung in rungs if rung.available)


def test_where_namespaces_are_forbidden_landlock_holds() -> None:
    with arena(PLAIN) as stage:
        wrapper = lacking(stage, "namespaces")
        names = ("ok_write_ws", "write_outside", "tcp4", "read_secret_home", "signal_victim")
        outcomes = probe(stage, stage.containment(), *names, uid=PLAIN, wrapper=wrapper)
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == dict.fromkeys(names, "refused") | {"ok_write_ws": "done"}


@pytest.mark.slow
@needs_bubblewrap
def test_where_landlock_is_missing_bubblewrap_holds() -> None:
    with arena(PLAIN) as stage:
        names = ("ok_write_ws", "write_outside", "tcp4", "read_secret_home", "signal_victim", "git_write")
        outcomes = probe(stage, stage.containment(), *names, uid=PLAIN, wrapper=lacking(stage, "landlock"))
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == dict.fromkeys(names, "refused") | {"ok_write_ws": "done"}


@pytest.mark.slow
def test_where_nothing_works_commands_are_refused_and_danger_full_access_still_runs() -> None:
    with arena(PLAIN) as stage:
        touch = ["touch", str(stage.workspace / "ran")]
        commands = [(touch, stage.containment()), (touch, stage.containment(mode="danger-full-access"))]
        refused, ran = drive(stage, commands, uid=PLAIN, wrapper=lacking(stage, "landlock", "namespaces"))
        assert refused["exit_code"] == 125
        assert "danger-full-access" in refused["setup_error"]
        assert (ran["exit_code"], ran["setup_error"]) == (0, None)
        (stage.workspace / "ran").unlink()
        (forced,) = drive(stage, commands[:1], uid=PLAIN, rung="full", wrapper=lacking(stage, "landlock"))
        assert forced["exit_code"] == 125
        assert "Landlock" in forced["setup_error"]
        assert not (stage.workspace / "ran").exists()


@needs_bubblewrap
async def test_protected_names_that_are_links_are_kept_where_they_lead_by_bubblewrap_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / ".git").symlink_to("real")
    (tmp_path / ".codex").symlink_to("gone")
    contained = Containment("workspace-write", (str(tmp_path),), protected=(".git", ".codex"))
    sandbox = Sandbox(rung="bubblewrap")
    try:
        result, output = await run(sandbox, contained, "sh", "-c", "touch here; touch real/x; echo ran", cwd=tmp_path)
    finally:
        await sandbox.close()
    assert (result.exit_code, "ran" in output.text()) == (0, True)
    assert ((tmp_path / "here").exists(), list((tmp_path / "real").iterdir())) == (True, [])


@pytest.mark.slow
@needs_root
def test_commands_do_not_run_as_root_where_only_landlock_works() -> None:
    with arena(0) as stage:
        (answer,) = drive(stage, [(["touch", "ran"], stage.containment())], uid=0, rung="landlock")
        assert answer["exit_code"] == 125
        assert "would run as root" in answer["setup_error"]
        assert not (stage.workspace / "ran").exists()


@pytest.mark.slow
@needs_root
def test_where_a_container_hides_parts_of_proc_the_full_rung_still_holds() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed (apt-get install util-linux)")
    # Another one that is whole, of a chroot, say, would allow a new one.
    others = """awk '$3 == "proc" && $2 != "/proc" {print $2}' /proc/mounts | xargs -r umount -l"""
    hide = ("unshare", "--mount", "sh", "-c", f'{others}; mount -t tmpfs none /proc/tty && exec "$@"', "sh")
    with arena(0) as stage:
        results = probe(stage, stage.containment(), uid=0, rung="full", wrapper=hide)
        worked = {name for name, (outcome, _) in results.items() if outcome == "done" and not name.startswith("ok_")}
        (answer,) = drive(stage, [(["sh", "-c", "ls /proc | grep -c '^[0-9]'"], stage.containment())], uid=0, wrapper=hide)
    assert worked == set()
    assert int(answer["stdout"]) > 5, "the old /proc is what was to be tested"


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("rung", ["full", "landlock", pytest.param("bubblewrap", marks=needs_bubblewrap)])
def test_root_on_another_users_workspace_gives_commands_a_temporary_folder_even_from_its_own_home(rung: str) -> None:
    with arena(PLAIN) as stage:
        private = stage.folder / "home-of-root" / "private"
        private.mkdir(parents=True)
        private.parent.chmod(0o700)
        containment = stage.containment(private_tmp=str(private))
        write = ["sh", "-c", "id -u; cd ${TMPDIR:-/tmp} && echo kept >> note && cat note && stat -c %u ."]
        first, second = drive(stage, [(write, containment), (write, containment)], uid=0, rung=rung)
    assert first["stdout"].split() == [str(PLAIN), "kept", str(PLAIN)], first
    assert second["stdout"].split() == [str(PLAIN), "kept", "kept", str(PLAIN)], second
    name = hashlib.sha256(os.fsencode(private)).hexdigest()[:16]  # of the one in its place where the user cannot get there
    assert not Path(f"/tmp/understudy-{PLAIN}-{name}").exists()


@pytest.mark.slow
@needs_root
def test_a_command_that_fills_a_disk_is_ended_before_it_is_full() -> None:
    with arena(0) as stage:
        small = (
            "unshare",
            "--mount",
            "sh",
            "-c",
            'mount -t tmpfs -o size=64m none "$0" && exec "$@"',
            str(stage.folder / "private"),
        )
        fill = ["sh", "-c", "head -c 60000000 /dev/zero > /tmp/big; sleep 30"]
        (answer,) = drive(stage, [(fill, stage.containment())], uid=0, rung="full", wrapper=small)
    assert (answer["exit_code"], answer["limit"]) == (137, "disk")
