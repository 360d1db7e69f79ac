"""Tasks: what an agent is asked, the files that it gets, and the hidden tests that judge its work (docs/bench-agent.md)."""

import base64
import binascii
import hashlib
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from understudy.errors import BadRequest

SHIPPED = Path(__file__).parent / "suite"
LARGEST_FILE = 64 * 2**20


class TaskFile(msgspec.Struct, frozen=True):
    content: bytes
    executable: bool = False


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    prompt: str
    check: tuple[str, ...]  # argv of the hidden tests; exit code 0 means that the task is solved
    seconds: float  # for the agent
    check_seconds: float
    tags: tuple[str, ...]
    files: Mapping[str, TaskFile]  # what the agent gets, by relative path
    hidden: Mapping[str, TaskFile]  # what is added to its work before it is judged
    digest: str  # of everything that defines the task


class _Inline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file in the TOML: as text, or as bytes that are not text."""

    text: str | None = None
    base64: str | None = None
    executable: bool = False


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: str
    check: str | list[str]
    seconds: float = 600
    check_seconds: float = 120
    tags: list[str] = []
    files: dict[str, str | _Inline] = {}
    hidden: dict[str, str | _Inline] = {}
    scripts: dict[str, Any] = {}  # for scripted models, in the project's own suite; not part of the task


def load_tasks(folder: Path) -> list[Task]:
    """All tasks of a folder: `NAME.toml`, or `NAME/task.toml` beside `NAME/files` and `NAME/hidden`. Raises `BadRequest`."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise BadRequest(f"cannot read the tasks in {folder}: {error.strerror}") from None
    tasks: dict[str, Task] = {}
    for entry in entries:
        alone = entry.suffix == ".toml" and entry.is_file()
        if not alone and not (entry / "task.toml").is_file():
            continue
        task = _load(entry.stem if alone else entry.name, entry if alone else entry / "task.toml", None if alone else entry)
        if task.name in tasks:
            raise BadRequest(f"there are two tasks called {task.name} in {folder}")
        tasks[task.name] = task
    if not tasks:
        raise BadRequest(f"there is no task in {folder}: a task is a file NAME.toml, or a folder with a task.toml in it")
    return [tasks[name] for name in sorted(tasks)]


def read_task_table(path: Path) -> dict[str, Any]:
    """The TOML as it is. Raises `BadRequest`."""
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRequest(f"{path}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(f"{path}: {error}") from None


def _load(name: str, path: Path, folder: Path | None) -> Task:
    try:
        written = msgspec.convert(read_task_table(path), _Written)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{path}: {error}") from None
    check = ("sh", "-c", written.check) if isinstance(written.check, str) else tuple(written.check)
    for key, wrong in (
        ("prompt", not written.prompt.strip()),
        ("check", not check or not check[-1].strip()),
        ("seconds", not 0 < written.seconds < 1e6),
        ("check_seconds", not 0 < written.check_seconds < 1e6),
    ):
        if wrong:
            raise BadRequest(
                f"{path}: `{key}` must not be {'empty' if key in ('prompt', 'check') else 'zero, negative or endless'}"
            )
    files = {**_inline(path, "files", written.files), **_beside(folder, "files")}
    hidden = {**_inline(path, "hidden", written.hidden), **_beside(folder, "hidden")}
    digest = hashlib.sha256()
    for part in (written.prompt, repr(check), repr((written.seconds, written.check_seconds)), _listed(files), _listed(hidden)):
        digest.update(hashlib.sha256(part.encode()).digest())
    return Task(
        name=name,
        prompt=written.prompt.strip(),
        check=check,
        seconds=written.seconds,
        check_seconds=written.check_seconds,
        tags=tuple(written.tags),
        files=files,
        hidden=hidden,
        digest=digest.hexdigest()[:16],
    )


def _inline(path: Path, key: str, files: Mapping[str, str | _Inline]) -> dict[str, TaskFile]:
    found: dict[str, TaskFile] = {}
    for name, file in files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise BadRequest(f"{path}: `{key}`: {name!r} is not a relative path that stays within the task's folder")
        found[str(PurePosixPath(name))] = _read_inline(f"{path}: `{key}`: {name!r}", file)
    return found


def _read_inline(place: str, file: str | _Inline) -> TaskFile:
    if isinstance(file, str):
        return TaskFile(file.encode())
    if (file.text is None) == (file.base64 is None):
        raise BadRequest(f"{place}: expected exactly one of `text` and `base64`")
    try:
        content = base64.b64decode(file.base64, validate=True) if file.base64 is not None else str(file.text).encode()
    except binascii.Error:
        raise BadRequest(f"{place}: this is not base64") from None
    return TaskFile(content, file.executable)


def _beside(folder: Path | None, name: str) -> dict[str, TaskFile]:
    """The files of a folder beside task.toml. Raises `BadRequest` for links, because a task must be the same on every machine."""
    if folder is None or not (folder / name).is_dir():
        return {}
    return dict(_walk(folder / name))


def _walk(folder: Path) -> Iterator[tuple[str, TaskFile]]:
    for base, folders, names in os.walk(folder):
        folders.sort()
        for file in sorted([*names, *(one for one in folders if os.path.islink(os.path.join(base, one)))]):
            path = Path(base, file)
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise BadRequest(f"{path}: a task is made of files and folders only; this is neither")
            if found.st_size > LARGEST_FILE:
                raise BadRequest(f"{path}: larger than {LARGEST_FILE // 2**20} MiB; let the task make it with a command")
            yield path.relative_to(folder).as_posix(), TaskFile(path.read_bytes(), bool(found.st_mode & stat.S_IXUSR))


def _listed(files: Mapping[str, TaskFile]) -> str:
    rows = [f"{name}\0{hashlib.sha256(file.content).hexdigest()}\0{file.executable}" for name, file in files.items()]
    return "\n".join(sorted(rows))
