"""An archive is installed where nothing else is, and has to answer there without a key and without a network."""

import os
import subprocess
from pathlib import Path

from scripts.release.archives import find_program, new_environment
from scripts.release.running import LONGEST, run, say


def try_out(archive: Path, version: str, folder: Path) -> None:
    uv = find_program("uv")
    if uv is not None and run([uv, "tool", "run", "--from", str(archive), "understudy-codex", "--version"], must=False):
        say(f"uvx runs {archive.name}")
    python = new_environment(folder)
    run([str(python), "-m", "pip", "install", "--quiet", str(archive)])
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.toml").write_text('model_provider = "scripted"\n')
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "CODEX_HOME": str(home)}
    for name in ("understudy", "understudy-codex"):
        for words, wanted in ((["--version"], version), (["exec", "--skip-git-repo-check", "hi"], "scripted model")):
            _answers([str(python.with_name(name)), *words], wanted, archive, project, env)
    say(f"{archive.name} works in a fresh environment")


def _answers(command: list[str], wanted: str, archive: Path, project: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    if done.returncode != 0 or wanted not in done.stdout:
        said = f"{done.stdout}{done.stderr}"
        raise SystemExit(f"release: `{Path(command[0]).name} {' '.join(command[1:])}` of {archive.name} failed:\n{said}")
