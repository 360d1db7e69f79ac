"""A Debian package: an environment in /usr/lib with the locked versions, for the Python of one release of Debian.

Many of them are not in Debian, or older there, so the package brings all along and needs nothing but Python.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.release.archives import new_environment
from scripts.release.locked import PACKAGE, installed_with
from scripts.release.running import ROOT, run

PLACE = Path("usr/lib") / PACKAGE
COMMANDS = ("understudy", PACKAGE)
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
CONTROL = """\
Package: {package}
Version: {version}-1
Architecture: {architecture}
Maintainer: The Understudy maintainers <maintainers@understudy.invalid>
Installed-Size: {size}
Depends: python3 (>= 3.{minor}~), python3 (<< 3.{after}~)
Recommends: git
Section: devel
Priority: optional
Description: coding agent that other programs call over MCP
 A drop-in for codex mcp-server: every conversation is kept in a durable log,
 and every command runs in a sandbox.
"""
# Nobody who runs it may write there, so each start would compile everything again. Left out is what no start loads, for its size.
COMPILE = """\
#!/bin/sh
set -e
[ "$1" != configure ] || /{place}/bin/python3 -m compileall -q -x '/(pygments|markdown_it|tomlkit|jsonschema)/' /{place}/lib
"""
FORGET = """\
#!/bin/sh
set -e
find /{place}/lib -name __pycache__ -type d -prune -exec rm -rf {{}} +
"""
SCRIPT = """\
#!/{place}/bin/python3
import sys

from understudy.cli.main import main

sys.exit(main())
"""


def package(wheel: Path, version: str, into: Path, work: Path, minor: int = sys.version_info.minor) -> Path:
    """For Python 3.`minor` and this machine's processor."""
    tree = work / "tree"
    site = tree / PLACE / "lib" / f"python3.{minor}" / "site-packages"
    _install(wheel, site, minor, new_environment(work / "installer"))
    _environment(tree, site, minor)
    _close(tree)
    architecture = MACHINES[os.uname().machine]
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN").chmod(0o755)
    size = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file() and not file.is_symlink()) // 1024
    fields = {
        "package": PACKAGE,
        "version": version,
        "architecture": architecture,
        "size": size,
        "minor": minor,
        "after": minor + 1,
    }
    (tree / "DEBIAN" / "control").write_text(CONTROL.format(**fields))
    (tree / "DEBIAN" / "control").chmod(0o644)
    for name, text in (("postinst", COMPILE), ("prerm", FORGET)):
        (tree / "DEBIAN" / name).write_text(text.format(place=PLACE))
        (tree / "DEBIAN" / name).chmod(0o755)
    made = into / f"{PACKAGE}_{version}-1+py3{minor}_{architecture}.deb"
    env = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1580601600")}  # as the wheel's, which has 2020
    run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(made)], env=env)
    return made


def _install(wheel: Path, site: Path, minor: int, python: Path) -> None:
    machine = os.uname().machine
    platforms = [f"manylinux_2_{libc}_{machine}" for libc in (36, 35, 34, 31, 28, 27, 26, 24, 17)] + [f"manylinux2014_{machine}"]
    choice = ["--only-binary=:all:", "--no-deps", "--python-version", f"3.{minor}", "--implementation", "cp"]
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(site), *choice]
    for platform in platforms:
        command += ["--platform", platform]
    run([*command, *(each.pin for each in installed_with()), str(wheel)])


def _environment(tree: Path, site: Path, minor: int) -> None:
    """As the module `venv` makes one, in the place where it will be."""
    of_libraries = [path for pattern in ("*/tests", "*/benchmarks", "**/*.pyx", "**/*.pxd") for path in site.glob(pattern)]
    for left_over in (site / "bin", *site.glob("*.dist-info/RECORD"), *site.glob("*.dist-info/direct_url.json"), *of_libraries):
        shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink(missing_ok=True)
    root = tree / PLACE
    shutil.move(site / "share", root / "share")
    (root / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.{minor}\n")
    (root / "bin").mkdir()
    (root / "bin" / "python3").symlink_to("/usr/bin/python3")
    (tree / "usr/bin").mkdir(parents=True)
    for name in COMMANDS:
        (root / "bin" / name).write_text(SCRIPT.format(place=PLACE))
        (tree / "usr/bin" / name).symlink_to(f"../lib/{PACKAGE}/bin/{name}")
    pages = tree / "usr/share/doc" / PACKAGE
    pages.mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", pages / "copyright")
    (pages / "pages").symlink_to(f"../../../lib/{PACKAGE}/share/doc/understudy")


def _close(tree: Path) -> None:
    """Modes that do not depend on who builds."""
    scripts: Sequence[Path] = [tree / PLACE / "bin" / name for name in COMMANDS]
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in scripts else 0o644)
