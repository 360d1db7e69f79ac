"""Fetches uv, which reads the lock file, with Python's standard library alone: neither pip nor venv has to be there.

Its wheel is a zip with the program in it. The lock file says which one, and which hash it has: nothing else is taken, wherever it
came from.
"""

import base64
import hashlib
import html.parser
import http.client
import netrc
import os
import platform
import re
import shutil
import ssl
import struct
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from package_index import PackageIndex

TRIES = 3
PAUSE_SECONDS = 1.0
LONGEST_PAGE = 32 << 20
LONGEST_WHEEL = 256 << 20
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "i586": "i686", "armv8l": "armv7l"}

Result = TypeVar("Result")
Moved = Callable[[int, int | None], None]  # bytes so far, of how many if that is known


class CannotFetch(Exception):
    """Its text says why, for a person."""


@dataclass(frozen=True)
class Wheel:
    url: str
    sha256: str

    @property
    def name(self) -> str:
        return _file_name(self.url)


def fetch_uv(lock: Path, program: Path, index: PackageIndex, moved: Moved, say: Callable[[str], None]) -> None:
    """Put uv at `program`, whole or not at all. Raises `CannotFetch`."""
    wheel = choose_wheel(locked_wheels(lock))
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".fetching-") as folder:
        fetched = Path(folder) / "uv.whl"
        _fetch_wheel(wheel, fetched, _Client(index, say), moved)
        unpacked = Path(folder) / "uv"
        with zipfile.ZipFile(fetched) as archive, open(unpacked, "wb") as target:
            inside = [name for name in archive.namelist() if re.fullmatch(r"uv-[^/]+\.data/scripts/uv", name)]
            if not inside:
                raise CannotFetch(f"there is no uv in {wheel.name}")
            with archive.open(inside[0]) as source:
                shutil.copyfileobj(source, target)
        unpacked.chmod(0o755)
        os.replace(unpacked, program)


# -- which one


def locked_wheels(lock: Path) -> list[Wheel]:
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    wheels = [wheel for package in packages if package["name"] == "uv" for wheel in package.get("wheels", [])]
    return [Wheel(wheel["url"], wheel["hash"].removeprefix("sha256:")) for wheel in wheels]


def choose_wheel(wheels: list[Wheel]) -> Wheel:
    fitting = [(rank, wheel.name, wheel) for wheel in wheels if (rank := _rank(wheel.name)) is not None]
    if not fitting:
        raise CannotFetch(f"there is none for {platform.system()} on {platform.machine()}")
    return min(fitting)[2]


def _rank(name: str) -> int | None:
    """The lower the better; None where the wheel does not run here. One for musl is linked statically: it runs anywhere."""
    system, machine = platform.system(), platform.machine().lower()
    tags = name.removesuffix(".whl").split("-")[-1].split(".")
    if system == "Darwin":
        release = tuple(map(int, platform.mac_ver()[0].split(".")[:2]))
        found = [re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", tag) for tag in tags]
        return (
            0 if any(tag and tag[3] in (machine, "universal2") and (int(tag[1]), int(tag[2])) <= release for tag in found) else None
        )
    machine = ARCHITECTURES.get(machine, machine)
    if struct.calcsize("P") == 4:  # a kernel of 64 bits may run a system of 32
        machine = {"x86_64": "i686", "aarch64": "armv7l"}.get(machine, machine)
    libc, version = platform.libc_ver()
    if libc == "glibc":
        here = tuple(map(int, version.split(".")[:2]))
        found = [re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", tag) for tag in tags]
        if any(tag and tag[3] == machine and (int(tag[1]), int(tag[2])) <= here for tag in found):
            return 0
    if any(re.fullmatch(rf"musllinux_\d+_\d+_{machine}", tag) for tag in tags):
        return 1
    return 2 if f"linux_{machine}" in tags else None


# -- from where


def _fetch_wheel(wheel: Wheel, target: Path, client: "_Client", moved: Moved) -> None:
    """From the first place that has it; the address in the lock file, which is PyPI's, is the last."""
    failures: list[str] = []
    for place in _places(wheel, client):
        try:
            if (address := place()) is None:
                continue
            client.download(address, target, moved)
            digest = hashlib.sha256(target.read_bytes()).hexdigest()
            if digest == wheel.sha256:
                return
            failures.append(f"{_shown(address)}: another file than the lock file names (its SHA-256 is {digest[:12]}…)")
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures.append(_reason(error))
    raise CannotFetch("; ".join(dict.fromkeys(failures)) or "no package index is allowed, and no folder has it")


def _places(wheel: Wheel, client: "_Client") -> Iterator[Callable[[], str | None]]:
    index = client.index
    for place in index.find_links:
        yield lambda place=place: client.link_on(place, wheel.name)
    if not index.no_index:
        for place in filter(None, [index.url, *index.extra]):
            yield lambda place=place: client.link_on(place.rstrip("/") + "/uv/", wheel.name)
        yield lambda: wheel.url


class _Client:
    """HTTP as the machine is set up for it: certificates, proxy, names and passwords in addresses or in ~/.netrc."""

    def __init__(self, index: PackageIndex, say: Callable[[str], None]) -> None:
        self.index = index
        self._say = say
        self._verified = ssl.create_default_context()
        if index.certificates and os.path.isfile(index.certificates):
            self._verified.load_verify_locations(index.certificates)
        self._unverified = ssl.create_default_context()
        self._unverified.check_hostname = False
        self._unverified.verify_mode = ssl.CERT_NONE

    def link_on(self, place: str, name: str) -> str | None:
        """The address of the file with that name in a folder, or on a page that links to it."""
        folder = _folder(place)
        if folder is not None and (folder / name).is_file():
            return (folder / name).as_uri()
        if folder is not None:
            place = (folder / "index.html").as_uri()
            if not (folder / "index.html").is_file():
                return None
        page = _tried_again(lambda: self._read_page(place))
        found = next((link for link in page.links if _file_name(link) == name), None)
        return _with_credentials(found, place) if found else None

    def _read_page(self, address: str) -> "_Links":
        with self._open(address) as response:
            page = _Links(response.url)
            page.feed(response.read(LONGEST_PAGE).decode("utf-8", "replace"))
            return page

    def download(self, address: str, target: Path, moved: Moved) -> None:
        _tried_again(lambda: self._download_once(address, target, moved))

    def _download_once(self, address: str, target: Path, moved: Moved) -> None:
        with self._open(address) as response, open(target, "wb") as file:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
            so_far = 0
            while chunk := response.read1(1 << 16):  # what there is, so that what moves on the screen is true
                file.write(chunk)
                so_far += len(chunk)
                if so_far > LONGEST_WHEEL:
                    raise ValueError(f"{_shown(address)} does not end")
                moved(so_far, total)
            if total is not None and so_far < total:
                raise ConnectionError(f"{_shown(address)} ended after {so_far} of {total} bytes")

    def _open(self, address: str) -> Any:
        bare, credentials = _without_credentials(address)
        host = urllib.parse.urlsplit(bare).hostname or ""
        request = urllib.request.Request(bare, headers={"Accept": "text/html, */*;q=0.1", "User-Agent": "understudy-set-up"})
        if credentials or (credentials := _from_netrc(host)):
            # unredirected: another host that we are sent to is not told
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
        trusted = any(host == each.rsplit(":", 1)[0] for each in self.index.trusted_hosts)
        try:
            return self._opener(verified=not trusted).open(request, timeout=self.index.timeout)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLCertVerificationError) or credentials:
                raise
        # A bare system has no certificates at all. Nothing secret is sent, and only what has the locked hash is taken.
        self._say(f"the certificate of {host} cannot be checked here; the hash in the lock file is what counts")
        return self._opener(verified=False).open(request, timeout=self.index.timeout)

    def _opener(self, *, verified: bool) -> urllib.request.OpenerDirector:
        handlers: list[Any] = [urllib.request.HTTPSHandler(context=self._verified if verified else self._unverified)]
        if self.index.proxy:
            handlers.append(urllib.request.ProxyHandler({"http": self.index.proxy, "https": self.index.proxy}))
        return urllib.request.build_opener(*handlers)


def _tried_again(action: Callable[[], Result]) -> Result:
    """Where the network or the server may do better next time."""
    for attempt in range(TRIES - 1):
        try:
            return action()
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            lasting = isinstance(cause, (ConnectionRefusedError, FileNotFoundError, PermissionError, ssl.SSLCertVerificationError))
            if lasting or (isinstance(error, urllib.error.HTTPError) and error.code < 500):
                raise
        time.sleep(PAUSE_SECONDS * 2**attempt)
    return action()


class _Links(html.parser.HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._base = address
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "base" and address:
            self._base = urllib.parse.urljoin(self._base, address)
        elif tag == "a" and address:
            self.links.append(urllib.parse.urljoin(self._base, address))


# -- addresses


def _file_name(address: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(address).path.rsplit("/", 1)[-1])


def _folder(place: str) -> Path | None:
    """A place on this machine, by path or by `file:`."""
    if place.startswith("file:"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(place).path))
    return None if re.match(r"https?:", place) else Path(place).expanduser()


def _without_credentials(address: str) -> tuple[str, str | None]:
    parts = urllib.parse.urlsplit(address)
    named, at, host = parts.netloc.rpartition("@")
    return (parts._replace(netloc=host).geturl(), urllib.parse.unquote(named)) if at else (address, None)


def _with_credentials(link: str, place: str) -> str:
    """A file on the same host takes the same name and password as the page."""
    there, here = urllib.parse.urlsplit(link), urllib.parse.urlsplit(place)
    same = (there.scheme, there.hostname, there.port) == (here.scheme, here.hostname, here.port)
    return there._replace(netloc=here.netloc).geturl() if same and "@" in here.netloc else link


def _from_netrc(host: str) -> str | None:
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return f"{found[0]}:{found[2]}" if found else None


def _shown(address: str) -> str:
    """Without a name or password, for a message."""
    parts = urllib.parse.urlsplit(_without_credentials(address)[0])
    return f"{parts.netloc or 'this machine'}: {_file_name(address) or parts.path}"


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{_shown(error.url)}: {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"{error.reason}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit("run scripts/set_up.py")
