"""A user's home and a project, for tests of the files on disk that say how agents are to work."""

import os
from pathlib import Path

from understudy.config import load_config
from understudy.config.model import Config
from understudy.config.trust import TrustStore
from understudy.protocol.records import Overrides


class Planted:
    """`user` is the home directory, `home` the configuration folder in it, `project` a repository."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.home = self.user / ".codex"
        self.project = folder / "project"
        self.home.mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)
        (self.project / ".git" / "HEAD").touch()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def skill(self, folder: Path, more: str = "", description: str = "What it is for.") -> Path:
        return self.write(folder / "SKILL.md", f"---\ndescription: {description}\n{more}---\nBody of {folder.name}.\n")

    def trust(self) -> None:
        TrustStore(self.home / "understudy" / "trust.json").trust(self.project)

    def config(self, cwd: Path | None = None, **settings: object) -> Config:
        env = {**os.environ, "HOME": str(self.user), "CODEX_HOME": str(self.home)}
        overrides = Overrides(model="m", cwd=str(cwd or self.project), config=settings)
        return load_config(self.home, overrides, server_cwd=self.project, env=env)
