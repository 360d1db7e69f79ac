"""Wheel and sdist: what is in them, how large they are, and that the same sources give the same bytes wherever they are built."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.archives import build, copy_sources
from understudy import __version__

LARGEST = {".whl": 2_100_000, ".gz": 1_600_000}  # bytes; 1,990,000 and 1,510,000 when this was written
OF_THE_SDIST = {"src", "docs", "README.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("archives")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("built")
    return build(copy_sources(folder / "sources"), folder / "dist")


def names_in(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.namelist()
    with tarfile.open(archive) as sdist:
        return [name.partition("/")[2] for name in sdist.getnames()]


def test_they_hold_the_program_and_its_pages_and_nothing_for_those_who_work_on_it(built: tuple[Path, Path]) -> None:
    wheel, sdist = built
    in_wheel = {name.split("/")[0] for name in names_in(wheel)}
    assert in_wheel == {"understudy", f"understudy_codex-{__version__}.dist-info", f"understudy_codex-{__version__}.data"}
    assert {name.split("/")[0] for name in names_in(sdist)} == OF_THE_SDIST
    pages = {name for name in names_in(wheel) if ".data/" in name}
    assert {Path(page).suffix for page in pages} == {".md", ".toml"}
    assert {Path(page).name for page in pages} >= {"README.md", "security.md", "config.toml"}
    for archive in built:
        assert archive.stat().st_size <= LARGEST[archive.suffix]


def test_other_folders_umasks_times_and_languages_give_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "a much longer name" / "elsewhere")
    for folder, _, files in os.walk(sources, topdown=False):
        for name in (".", *files):
            os.utime(Path(folder, name), (1, 1_500_000_000))
            Path(folder, name).chmod(0o700 if name == "." else 0o600)
    surroundings = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    again = build(sources, tmp_path / "dist", surroundings, umask=0o077)
    assert [archive.name for archive in again] == [archive.name for archive in built]
    assert [archive.read_bytes() for archive in again] == [archive.read_bytes() for archive in built]


def test_a_wheel_of_the_sdist_is_the_wheel_of_the_sources(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [sources] = tmp_path.iterdir()
    again = build(sources, tmp_path / "dist")
    assert [archive.read_bytes() for archive in again] == [wheel.read_bytes(), sdist.read_bytes()]


def test_the_time_of_a_source_is_the_one_that_is_asked_for(built: tuple[Path, Path], tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    wheel, sdist = build(sources, tmp_path / "dist", {"SOURCE_DATE_EPOCH": "1700000000"})
    with zipfile.ZipFile(wheel) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    with tarfile.open(sdist) as archive:
        assert {info.mtime for info in archive.getmembers()} == {1_700_000_000}
    assert wheel.read_bytes() != built[0].read_bytes()
