"""Files that a model is given: judged by what was opened, whatever is put in their place meanwhile."""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from understudy.places.masks import Masks
from understudy.places.places import Places
from understudy.places.reading import NotForModels, read_for_model
from understudy.places.resolving import resolve_places

SECRET = b"MASKED"
READS = 4000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "vault").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "vault" / "f").write_bytes(SECRET)
    (folder / "docs" / "f").write_bytes(b"plain")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_bytes(SECRET)
    return folder


@contextmanager
def meanwhile(act: Callable[[], None]) -> Generator[None]:
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            with suppress(OSError):
                act()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def swapping(first: Path, second: Path) -> Callable[[], None]:
    """Exchange two names, as fast as can be."""
    spare = first.with_name("spare")

    def swap() -> None:
        first.rename(spare)
        second.rename(first)
        spare.rename(second)

    return swap


@pytest.mark.parametrize("way", ["the file", "a folder", "a link to the outside"])
def test_what_is_exchanged_while_it_is_read_gives_nothing_masked(project: Path, way: str) -> None:
    masks = Masks([str(project / "vault")])
    doc = project / "AGENTS.md"
    match way:
        case "the file":
            doc.write_bytes(b"plain")
            (project / "other").symlink_to("vault/f")
            swap = swapping(doc, project / "other")
        case "a folder":
            doc.symlink_to("docs/f")
            (project / "door").symlink_to("vault")
            swap = swapping(project / "docs", project / "door")
        case _:
            doc.symlink_to("docs/f")
            (project / "door").symlink_to("../outside")
            swap = swapping(project / "docs", project / "door")
    seen: set[bytes] = set()
    with meanwhile(swap):
        for _ in range(READS):
            with suppress(OSError, NotForModels):
                seen.add(read_for_model(str(doc), masks, 100, within=str(project)))
    assert seen <= {b"plain", b""}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("vault/f", "masked"),
        ("docs/../vault/f", "masked"),
        ("{project}/vault/f", "masked"),
        ("/proc/self/root{project}/vault/f", "masked"),
        ("../outside/f", "outside its project"),
        ("docs", "not a regular file"),
    ],
)
def test_a_link_is_followed_only_to_where_it_may_lead(project: Path, target: str, words: str) -> None:
    (project / "AGENTS.md").symlink_to(target.format(project=project))
    with pytest.raises(NotForModels, match=words):
        read_for_model(str(project / "AGENTS.md"), Masks([str(project / "vault")]), 100, within=str(project))


def test_a_link_that_stays_inside_is_followed_and_a_loop_is_an_error(project: Path) -> None:
    (project / "AGENTS.md").symlink_to("docs/./../docs/f")
    assert read_for_model(str(project / "AGENTS.md"), Masks([]), 100, within=str(project)) == b"plain"
    (project / "loop").symlink_to("loop")
    with pytest.raises(OSError):
        read_for_model(str(project / "loop"), Masks([]), 100)


def test_a_file_of_a_place_is_opened_for_the_model_unless_it_is_masked(project: Path) -> None:
    places = Places(resolve_places([str(project)]), masked=[str(project / "vault" / "f")])
    descriptor = places.open_for_model(str(project / "docs" / "f"))
    assert os.read(descriptor, 100) == b"plain"
    os.close(descriptor)
    os.link(project / "vault" / "f", project / "second")
    for name in ("vault/f", "second"):
        with pytest.raises(NotForModels):
            places.open_for_model(str(project / name))
