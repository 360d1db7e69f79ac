"""A new user's first minute: a bare Debian with Python, make and git and nothing else, a fresh clone, `make demo` as a plain user.

The system is made by debootstrap, from the archive that this machine's apt is configured for. `UNDERSTUDY_BARE_SUITE` names another
release (`trixie`), and `UNDERSTUDY_BARE_COMMAND` another command (`make test`).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = os.environ.get("UNDERSTUDY_BARE_SUITE", "bookworm")
COMMAND = os.environ.get("UNDERSTUDY_BARE_COMMAND", "make demo")
MAKE_SYSTEM_SECONDS = 400
RUN_SECONDS = 400 if COMMAND == "make demo" else 3000
# How this machine reaches the package index, and what its certificates are.
NETWORK = (
    "SSL_CERT_FILE",
    "PIP_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
)
# The folder becomes the whole system: in a mere chroot nobody may make user namespaces, and the sandbox would be another one. Its
# files, processes and temporary files are its own, and all of it ends with the first process.
ENTER = """
mkdir -p "$0/before" && mount --bind "$0" "$0" && cd "$0" || exit 99
mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys && mount -t tmpfs -o mode=1777 tmp tmp || exit 99
pivot_root . before && umount -l /before || exit 99
cd / && exec /usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups \\
    /usr/bin/env -i HOME=/home/someone USER=someone LANG=C.UTF-8 PATH=/usr/bin:/bin "$@"
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(MAKE_SYSTEM_SECONDS + RUN_SECONDS + 60)]


def run(*command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False
    )


def archive() -> str:
    """Where apt gets Debian's packages from."""
    listed = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE) $(REPO_URI)", "Created-By: Packages", seconds=60).stdout
    for line in listed.splitlines():
        origin, _, address = line.split(" ", 2)
        if origin == "Debian" and "security" not in address:
            return address
    pytest.skip("this machine's apt knows no archive of Debian (/etc/apt/sources.list)")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can make a bare system (run the tests as root, and apt-get install debootstrap)")
    for program in ("debootstrap", "apt-get", "unshare", "pivot_root"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install debootstrap)")
    if run("unshare", "-m", "-p", "-f", "true", seconds=60).returncode != 0:
        pytest.skip("this machine lets nobody make namespaces of mounts and processes")
    folder = tmp_path / "system"
    include = "--include=python3,make,git"
    made = run("debootstrap", "--variant=minbase", include, SUITE, str(folder), archive(), seconds=MAKE_SYSTEM_SECONDS)
    if made.returncode != 0:
        pytest.skip(f"debootstrap could not make {SUITE}: {made.stdout[-500:]}")
    yield folder
    shutil.rmtree(folder)


def bring_in(system: Path) -> None:
    """A plain user with a fresh clone, and this machine's way to the network."""
    for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", os.environ.get("SSL_CERT_FILE", "")):
        if file and Path(file).is_file():
            (system / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, system / file.lstrip("/"))
    added = run("chroot", str(system), "useradd", "--create-home", "--uid", "1000", "someone", seconds=60)
    assert added.returncode == 0, added.stdout
    home = system / "home" / "someone"
    cloned = run("git", "clone", "--quiet", "--no-local", str(ROOT), str(home / "understudy"), seconds=120)
    if cloned.returncode != 0:
        pytest.skip(f"this is no checkout to clone: {cloned.stdout}")
    for folder, folders, files in os.walk(home):
        for name in (".", *folders, *files):
            os.chown(Path(folder, name), 1000, 1000, follow_symlinks=False)


def test_on_a_bare_debian_a_plain_user_gets_from_a_clone_to_the_demo(system: Path) -> None:
    bring_in(system)
    for missing in ("venv", "pip"):  # so the test stays about what it says
        found = run("chroot", str(system), "python3", "-c", f"import ensurepip, {missing}", seconds=60)
        assert found.returncode != 0
    network = [f"{name}={os.environ[name]}" for name in NETWORK if os.environ.get(name)]
    enter = ("unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", ENTER, str(system), *network)
    ended = run(*enter, "sh", "-c", f"cd ~/understudy && {COMMAND}", seconds=RUN_SECONDS)
    assert ended.returncode == 0, ended.stdout[-5000:]
    if COMMAND == "make demo":
        assert "the folder it worked in is gone again" in ended.stdout
