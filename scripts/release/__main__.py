"""Everything of a release but its upload, into `dist`. Run by `make release`.

Nothing is published: what to do with the files is said at the end.
"""

import shutil
import tempfile
from pathlib import Path

from scripts.release.archives import build, check_sdist, check_wheel
from scripts.release.debian import package
from scripts.release.homebrew import formula
from scripts.release.notes import UNRELEASED, notes_for, version_of
from scripts.release.provenance import KEY, digests, sign, statement
from scripts.release.running import ROOT, say
from scripts.release.sbom import bill_of_materials
from scripts.release.tries import try_out

DIST = ROOT / "dist"


def main() -> None:
    version = version_of(ROOT / "pyproject.toml")
    heading, notes = notes_for(version, (ROOT / "CHANGELOG.md").read_text())
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        work = Path(folder)
        wheel, sdist = build(DIST, work)
        check_wheel(wheel)
        check_sdist(sdist)
        for archive in (wheel, sdist):
            try_out(archive, version, work / archive.suffix.strip("."))
        if shutil.which("dpkg-deb"):
            package(wheel, version, DIST, work / "debian")
        else:
            say("dpkg-deb is not installed, so there is no Debian package")
    (DIST / "understudy-codex.rb").write_text(formula(version, sdist))
    (DIST / f"understudy-codex-{version}.cdx.json").write_text(bill_of_materials(version, [wheel, sdist]))
    (DIST / f"notes-{version}.md").write_text(notes)
    describe()
    say(f"dist has {', '.join(sorted(file.name for file in DIST.iterdir()))}")
    if UNRELEASED in heading:
        say(f"CHANGELOG.md still says “{UNRELEASED}” for {version}: put the date there, and run this again, before it is tagged")
    say(f"to publish: git tag v{version}, then upload the two archives with uv publish or twine")


def describe() -> None:
    """Where each file comes from, what its digest is, and who says so."""
    (DIST / "provenance.intoto.json").write_text(statement(list(DIST.iterdir())))
    (sums := DIST / "SHA256SUMS").write_text(digests([file for file in DIST.iterdir() if file.name != sums.name]))
    if sign(sums) is None:
        say(f"SHA256SUMS is not signed: {KEY} names no key of OpenSSH")


if __name__ == "__main__":
    main()
