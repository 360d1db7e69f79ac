"""Real repositories: a project to clone, and a bare one that keeps snapshots."""

import json
import os
import subprocess
from pathlib import Path

from understudy.testing import McpProcess

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@localhost",
}


def git(folder: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=folder, env={**ENV, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def project(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with one commit on `main`."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {"README.md": "hello\n", ".gitignore": "*.log\nbuilt/\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def store(folder: Path) -> Path:
    """An empty bare repository."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "--bare")
    return folder


def refs(kept: Path) -> dict[str, str]:
    rows = git(kept, "for-each-ref", "--format=%(refname) %(objectname)", "refs/understudy").splitlines()
    return dict(row.split(" ") for row in rows)


async def saved(client: McpProcess, kept: Path, thread: str, turn: str) -> str:
    """The commit of a snapshot, once whoever watches is told that it is there."""
    await told(client, thread, f"is saved as refs/understudy/{thread}/{turn}")
    return refs(kept)[f"refs/understudy/{thread}/{turn}"]


async def told(client: McpProcess, thread: str, words: str) -> None:
    """Until whoever watches the conversation is told this."""
    await client.call_tool("conversationStream", conversation_id=thread)
    await client.wait_for_frame(lambda frame: "method" in frame and words in json.dumps(frame), words)
