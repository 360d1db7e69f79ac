"""What is in `packaging`: the steps of the container file are run in folders of their own, and the unit is checked by systemd."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "packaging" / "Containerfile"
UNIT = ROOT / "packaging" / "understudy.service"
PLACES = re.compile(r"(?<![\w/.:-])(/src|/opt/understudy|/var/lib/understudy|/work)(?![\w-])")
NEEDS_AN_IMAGE = ("apt-get ", "useradd ")  # steps that change the system they run on
BUILD_SECONDS = 280


def instructions() -> list[tuple[str, str]]:
    lines = [line.strip() for line in CONTAINERFILE.read_text().splitlines()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line and not line.startswith("#")]


def moved(text: str, root: Path) -> str:
    """The same below a folder of the test, and for whoever runs the test."""
    text = PLACES.sub(lambda found: f"{root}{found[1]}", text)
    return text.replace("-o 1000 -g 1000", f"-o {os.getuid()} -g {os.getgid()}")


async def run(*command: str, env: Mapping[str, str], cwd: Path) -> tuple[int | None, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=env, cwd=cwd, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    out, _ = await asyncio.wait_for(process.communicate(), BUILD_SECONDS)
    return process.returncode, out.decode()


async def is_healthy(port: int) -> bool:
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), WAIT_SECONDS)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return (await asyncio.wait_for(reader.readline(), WAIT_SECONDS)).split()[1] == b"200"
    finally:
        writer.close()
        await writer.wait_closed()


async def served(command: list[str], env: Mapping[str, str], cwd: Path, check: list[str] | None = None, ended: int = 0) -> None:
    """The command serves on a port of its own choice, and ends when it is told to. `check` finds it in good health."""
    process = await asyncio.create_subprocess_exec(
        *command, "--port", "0", env=env, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        first = (await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)).decode()
        port = first.rpartition(":")[2].split("/")[0]
        assert await is_healthy(int(port))
        if check is not None:
            assert await run(*(word.replace(":8722/", f":{port}/") for word in check), env=env, cwd=cwd) == (0, "")
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == ended


@pytest.mark.slow
async def test_the_steps_of_the_container_file_make_a_server(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG") or name.startswith(("PIP_", "SSL_"))}
    env["HOME"] = str(tmp_path)
    words: dict[str, list[str]] = {}
    left_out: list[str] = []
    for name, text in instructions():
        match name:
            case "COPY":
                *sources, target = text.split()
                for source in sources:
                    place = Path(moved(target, tmp_path)) / ("" if (ROOT / source).is_dir() else source)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                    copy(ROOT / source, place)
            case "RUN" if text.startswith(NEEDS_AN_IMAGE):
                left_out.append(text)
            case "RUN":
                code, said = await run("sh", "-ec", moved(text, tmp_path).replace("python3", sys.executable), env=env, cwd=tmp_path)
                assert code == 0, f"{text}\n{said}"
            case "ENV":
                variable, _, value = text.partition("=")
                env[variable] = moved(value, tmp_path)
            case "ENTRYPOINT" | "CMD":
                words[name] = json.loads(text)
            case "HEALTHCHECK":
                words[name] = json.loads(text.removeprefix("CMD "))
            case _:
                pass
    assert len(left_out) == 2
    assert (tmp_path / "var/lib/understudy").stat().st_mode & 0o777 == 0o700
    program = shutil.which(words["ENTRYPOINT"][0], path=env["PATH"])
    assert program is not None
    assert program == str(tmp_path / "opt/understudy/bin/understudy")
    work = tmp_path / "work"
    assert "there is no token yet" in (await run(program, *words["CMD"], env=env, cwd=work))[1]
    code, said = await run(program, "token", "add", "alice", env=env, cwd=work)
    assert code == 0, said
    checker = shutil.which(words["HEALTHCHECK"][0], path=env["PATH"])
    assert checker is not None
    assert checker == str(tmp_path / "opt/understudy/bin/python3")
    await served([program, *words["CMD"]], env, work, [checker, *words["HEALTHCHECK"][1:]])
    await served([*only_the_volumes(tmp_path), program, *words["CMD"]], env, work, ended=-signal.SIGTERM)  # bubblewrap's own end
    answer = [program, "exec", "-c", 'model_provider="scripted"', "--skip-git-repo-check", "hi"]
    code, said = await run(*only_the_volumes(tmp_path), *answer, env=env, cwd=work)
    assert (code, "scripted model" in said) == (0, True), said
    code, said = await run(*only_the_volumes(tmp_path), "touch", str(tmp_path / "elsewhere"), env=env, cwd=work)
    assert (code, "Read-only file system" in said) == (1, True)


def only_the_volumes(root: Path) -> list[str]:
    """As `--read-only --user 1000 --cap-drop all` of an engine: not even `/tmp` can be written to."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap is not installed, so an image's surroundings cannot be made (apt-get install bubblewrap)")
    volumes = [str(root / name) for name in ("var/lib/understudy", "work")]
    writable = [word for volume in volumes for word in ("--bind", volume, volume)]
    closed = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    return [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *writable, *closed, "--die-with-parent"]


def test_the_container_file_runs_as_a_plain_user_and_names_what_there_is() -> None:
    found = dict(instructions())
    assert found["USER"] == "1000:1000"  # the user that a step has made
    assert any(text == "useradd --uid 1000 --create-home agent" for _, text in instructions())
    assert found["ENTRYPOINT"] == '["understudy"]'
    for name, text in instructions():
        if name == "COPY":
            assert all((ROOT / source).exists() for source in text.split()[:-1])
    extras = re.search(r"/src\[([a-z,]+)\]", CONTAINERFILE.read_text())
    assert extras is not None
    known = re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(extras[1].split(",")) <= set(known)


def unit() -> list[tuple[str, str]]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [(line.partition("=")[0], line.partition("=")[2]) for line in lines]


async def test_the_command_of_the_unit_serves(tmp_path: Path) -> None:
    (command,) = [text for name, text in unit() if name == "ExecStart"]
    program, *arguments = shlex.split(command)
    assert program == "/opt/understudy/bin/understudy"
    variables = dict(text.split("=", 1) for name, text in unit() if name == "Environment")
    assert variables == {"CODEX_HOME": "/var/lib/understudy"}
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "state")}
    (tmp_path / "state").mkdir()  # as `StateDirectory` does
    await served([sys.executable, "-m", "understudy", *arguments], env, tmp_path)


def test_the_unit_is_one_that_systemd_understands_and_finds_closed(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed, so the unit cannot be checked by it (apt-get install systemd)")
    copy = tmp_path / "understudy.service"
    copy.write_text(UNIT.read_text().replace("/opt/understudy/bin/understudy", "/bin/true"))  # which has to be there to be checked
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    settings = dict(unit())
    for name in ("RestrictNamespaces", "ProtectProc", "ProcSubset", "ProtectKernelTunables", "MountAPIVFS"):
        assert name not in settings, f"{name} would take the agent's own sandbox away"
    assert (settings["NoNewPrivileges"], settings["ProtectSystem"], settings["CapabilityBoundingSet"]) == ("yes", "strict", "")
