"""Where the files of a patch stand: inside the writable roots, outside them, or on the list of what is protected.

Judges paths only and decides nothing: policy does. Names are compared the way the most forgiving file system would, so
that no spelling of `.git` gets past a check that another spelling would have met.
"""

import os
import posixpath
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from .paths import is_within
from .plan import PatchPlan

Place = Literal["inside", "outside", "protected"]

# Files that a tool or a login runs by itself later on. The last names of a path; a `*` stands for any one name.
_RUNS_LATER: tuple[tuple[str, str], ...] = (
    (".envrc", "run by direnv on entering the directory"),
    (".vscode/tasks.json", "run by the editor"),
    (".vscode/settings.json", "names programs that the editor runs"),
    (".vscode/launch.json", "run by the editor"),
    (".idea/runconfigurations/*", "run by the editor"),
    (".devcontainer/devcontainer.json", "run when the container is built"),
    (".devcontainer.json", "run when the container is built"),
    (".github/workflows/*", "run by CI"),
    (".github/actions/*/*", "run by CI"),
    (".gitlab-ci.yml", "run by CI"),
    (".circleci/config.yml", "run by CI"),
    (".travis.yml", "run by CI"),
    ("azure-pipelines.yml", "run by CI"),
    ("jenkinsfile", "run by CI"),
    (".pre-commit-config.yaml", "run on each commit"),
    (".husky/*", "run on each commit"),
    (".gitmodules", "names repositories that git fetches"),
    (".gitconfig", "names programs that git runs"),
    (".npmrc", "names programs that npm runs"),
    (".bashrc", "run by each new shell"),
    (".bash_profile", "run at login"),
    (".bash_login", "run at login"),
    (".bash_logout", "run at logout"),
    (".bash_aliases", "run by each new shell"),
    (".profile", "run at login"),
    (".zshrc", "run by each new shell"),
    (".zshenv", "run by each new shell"),
    (".zprofile", "run at login"),
    (".zlogin", "run at login"),
    (".config/fish/config.fish", "run by each new shell"),
    (".config/fish/conf.d/*", "run by each new shell"),
    (".config/autostart/*", "run at login"),
    (".config/systemd/user/*", "run as a service"),
    ("launchagents/*", "run as a service"),
    (".ssh/config", "names programs that ssh runs"),
    (".ssh/authorized_keys", "lets others log in"),
    (".ssh/rc", "run at login"),
    ("sitecustomize.py", "run by every Python program"),
    ("usercustomize.py", "run by every Python program"),
)


class Placement(msgspec.Struct, frozen=True):
    path: str  # real and absolute
    place: Place
    reason: str  # in words, for the person or model that is told
    runs_later: str | None = None


def classify_targets(plan: PatchPlan, writable_roots: Sequence[str], protected: Sequence[str]) -> tuple[Placement, ...]:
    """Every target of the plan with its place, in the plan's order."""
    judge = _Judge(writable_roots, protected)
    return tuple(judge.place(target) for target in plan.targets)


def place_path(path: str, writable_roots: Sequence[str], protected: Sequence[str]) -> Placement:
    """The place of one absolute path, for doors other than patches."""
    return _Judge(writable_roots, protected).place(posixpath.normpath(path))


class _Judge:
    def __init__(self, writable_roots: Iterable[str], protected: Iterable[str]) -> None:
        self._roots = [os.path.realpath(root) for root in writable_roots]
        entries = list(protected)
        self._names = [(entry, _names(entry)) for entry in entries if not entry.startswith("/")]
        self._places = [(entry, _names(real)) for entry in entries if entry.startswith("/") for real in _spellings(entry)]

    def place(self, path: str) -> Placement:
        runs_later = _runs_later(_names(path))
        real = os.path.realpath(path)
        entry = self._protected_by(path) or self._protected_by(real)
        if entry is not None:
            return Placement(path, "protected", f"{path} is protected by '{entry}'", runs_later)
        if real != path:
            return Placement(path, "outside", f"{path} leads through a symbolic link to {real}", runs_later)
        for root in self._roots:
            if is_within(path, root):
                return Placement(path, "inside", f"{path} is in {root}", runs_later)
        return Placement(path, "outside", f"{path} is outside of the writable directories", runs_later)

    def _protected_by(self, path: str) -> str | None:
        names = _names(path)
        for entry, protected in self._places:
            shorter = min(len(names), len(protected))
            if names[:shorter] == protected[:shorter]:  # beneath it, or a file where one of its directories would be
                return entry
        # A root may itself lie under such a name; what counts is what lies beneath the root.
        beneath = [names[len(_names(root)) :] for root in self._roots if is_within(path, root)]
        for entry, protected in self._names:
            if any(_contains(tail, protected) for tail in beneath or [names]):
                return entry
        return None


def _spellings(entry: str) -> set[str]:
    return {posixpath.normpath(entry), os.path.realpath(entry)}


def _names(path: str) -> tuple[str, ...]:
    return tuple(_folded(name) for name in path.split("/") if name not in ("", "."))


def _folded(name: str) -> str:
    """One spelling for all that some file system takes for the same name."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(character for character in name if unicodedata.category(character) != "Cf")
        name = unicodedata.normalize("NFC", name.casefold())
    name = name.lower().partition(":")[0] or name.lower()  # `.git::$INDEX_ALLOCATION` on NTFS
    name = name.rstrip(". ") or name
    return ".git" if name == "git~1" else name  # its short name on FAT and NTFS


def _contains(names: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return bool(part) and any(names[start : start + len(part)] == part for start in range(len(names) - len(part) + 1))


def _runs_later(names: tuple[str, ...]) -> str | None:
    for pattern, reason in _RUNS_LATER:
        parts = pattern.split("/")
        tail = names[-len(parts) :]
        if len(tail) == len(parts) and all(part in ("*", name) for part, name in zip(parts, tail, strict=True)):
            return reason
    return ".pth files are run by every Python program" if names and names[-1].endswith(".pth") else None
