"""Everything of a release but its upload, into `dist`. Run by `make release`.

Nothing is published: what to do with the files is said at the end.
"""

import shutil
import tempfile
from pathlib import Path

from scripts.release.archives import build, check_sdist, check_wheel
from scripts.release.notes import UNRELEASED, notes_for, version_of
from scripts.release.running import ROOT, say
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
    (DIST / f"notes-{version}.md").write_text(notes)
    say(f"dist has {', '.join(sorted(file.name for file in DIST.iterdir()))}")
    if UNRELEASED in heading:
        say(f"CHANGELOG.md still says “{UNRELEASED}” for {version}: put the date there, and run this again, before it is tagged")
    say(f"to publish: git tag v{version}, then upload the two archives with uv publish or twine")


if __name__ == "__main__":
    main()
