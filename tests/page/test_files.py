"""The page's files: what is other people's is what they published, and ours keeps to what the page's policy allows."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import understudy.servers
from understudy.testing.waiting import WAIT_SECONDS

STATIC = Path(understudy.servers.__file__).parent / "page" / "static"
VENDOR = STATIC / "vendor"
OURS = sorted((STATIC / "app").rglob("*.js"))
STYLES = sorted((STATIC / "styles").glob("*.css"))
PAGES = sorted(STATIC.glob("*.html"))
MOST_LINES = 400


def test_vendored_modules_are_byte_for_byte_what_their_packages_have() -> None:
    listed = json.loads((VENDOR / "manifest.json").read_text())["files"]
    assert {entry["file"] for entry in listed} == {path.name for path in VENDOR.glob("*.js")}
    for entry in listed:
        assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], entry["file"]


def test_each_vendored_module_comes_with_its_licences() -> None:
    for entry in json.loads((VENDOR / "manifest.json").read_text())["files"]:
        assert entry["licences"], entry["file"]
        for name in entry["licences"]:
            assert len((VENDOR / name).read_text()) > 500, name
        assert entry["version"]
        assert entry["spdx"]


def test_no_file_of_the_page_does_two_things() -> None:
    lines = {path.name: path.read_text().count("\n") for path in [*OURS, *STYLES, *PAGES]}
    assert len(OURS) > 20
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize("path", [*OURS, *PAGES], ids=lambda path: path.name)
def test_nothing_in_it_turns_text_into_markup_or_code(path: Path) -> None:
    text = path.read_text()
    sinks = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(|new Function|srcdoc|javascript:"
    )
    assert re.findall(sinks, text) == []
    assert re.findall(r"""\sstyle=["$]|<style|\son[a-z]+=["']""", text) == []  # handlers are Preact's: onClick=${…}


def test_only_the_web_addresses_of_standards_are_named() -> None:
    for path in [*OURS, *STYLES, *PAGES, *STATIC.glob("*.webmanifest")]:
        assert re.findall(r"https?://[a-z]", path.read_text()) == [], path.name


def test_every_module_that_is_imported_is_there() -> None:
    for path in OURS:
        for named in re.findall(r'^(?:import|export|}).* from "([^"]+)";', path.read_text(), re.MULTILINE):
            assert (path.parent / named).is_file(), f"{path.name}: {named}"
    for page in PAGES:
        for named in re.findall(r'(?:src|href)="page/([^"]+)"', page.read_text()):
            assert (STATIC / named).is_file(), f"{page.name}: {named}"


def test_the_icons_of_the_manifest_are_there_in_their_sizes() -> None:
    from PIL import Image

    manifest = json.loads((STATIC / "manifest.webmanifest").read_text())
    for icon in manifest["icons"]:
        path = STATIC / icon["src"]
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert f"{image.width}x{image.height}" == icon["sizes"]
        else:
            assert path.is_file()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed (apt-get install nodejs)")
def test_every_module_is_valid_javascript() -> None:
    parse = "const { readFileSync } = require('fs'); const { SourceTextModule } = require('vm');"
    each = "for (const name of process.argv.slice(1)) new SourceTextModule(readFileSync(name, 'utf8'), { identifier: name });"
    command = ["node", "--experimental-vm-modules", "--no-warnings", "-e", parse + each, *map(str, OURS)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=10 * WAIT_SECONDS)
    assert checked.returncode == 0, checked.stderr
