"""The formula for Homebrew, of the sdist and of what the lock says is installed beside it."""

import tomllib
from pathlib import Path

from scripts.release.locked import Locked, installed_with
from scripts.release.running import ROOT
from scripts.release.sbom import digest

TEMPLATE = ROOT / "packaging" / "homebrew.rb"


def formula(version: str, sdist: Path) -> str:
    published = tomllib.loads((ROOT / "packaging" / "published.toml").read_text())
    address = str(published["homebrew"]["sdist"]).format(version=version)
    resources = "\n\n".join(_resource(each) for each in installed_with())
    text = "".join(line for line in TEMPLATE.read_text().splitlines(keepends=True) if not line.startswith("#"))
    return text.replace("@SDIST@", address).replace("@SHA256@", digest(sdist)).replace("@RESOURCES@", resources)


def _resource(package: Locked) -> str:
    if package.sdist is None:
        raise SystemExit(f"release: {package.name} has no sdist in the lock, and Homebrew builds from those")
    address, sha256 = package.sdist
    return f'  resource "{package.name}" do\n    url "{address}"\n    sha256 "{sha256}"\n  end'
