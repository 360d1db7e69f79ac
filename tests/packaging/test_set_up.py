"""`scripts/set_up.py`, as the Makefile runs it, with an index of our own and a stand-in for uv that notes how it is called.

Every run is by a Python that has neither pip nor venv, as on a bare Debian or Ubuntu.
"""

import base64
import hashlib
import http.server
import io
import os
import pty
import shutil
import ssl
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.models.authority import make_authority
from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
BARE = """
import runpy, sys
sys.modules.update(pip=None, venv=None, ensurepip=None)
sys.path.insert(0, "scripts")
runpy.run_path("scripts/set_up.py", run_name="__main__")
"""
UV = """#!/bin/sh
here=$(dirname "$0")/../..
case $1 in
--version) echo "uv 0.13.8"; exit 0 ;;
export) exit 0 ;;
sync) [ ! -e "$here/sync-fails" ] || { echo "error: no route"; exit 2; } ;;
esac
{ echo "$@"; env | grep -E '^(UV_|SSL_CERT_FILE|HTTPS_PROXY)' | sort; } >>"$here/called"
mkdir -p "$here/.venv/bin" && ln -sf /bin/true "$here/.venv/bin/python"
"""
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64", "macosx_10_12_x86_64")
NAME = "uv-0.13.8-py3-none-" + ".".join((*PLATFORMS, "musllinux_1_1_x86_64", "musllinux_1_1_aarch64")) + ".whl"


def wheel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("uv-0.13.8.data/scripts/uv", UV)
    return packed.getvalue()


WHEEL = wheel()
PAGE = f'<html><body><a href="../../files/uv-0.0.1.tar.gz">old</a><a href="/files/{NAME}#sha256=00">new</a></body></html>'.encode()


@dataclass
class Index:
    """`/simple/uv/` and the file it links to. `answers` has other answers for some paths, one after the other."""

    server: http.server.ThreadingHTTPServer
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    answers: dict[str, list[Callable[[http.server.BaseHTTPRequestHandler], None]]] = field(
        default_factory=dict[str, list[Callable[[http.server.BaseHTTPRequestHandler], None]]]
    )

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def send(handler: http.server.BaseHTTPRequestHandler, body: bytes, *, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(length or len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def start_index(certificate: ssl.SSLContext | None = None) -> Index:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append((self.path, self.headers["Authorization"]))
            if rest := index.answers.get(self.path):
                rest.pop(0)(self)
            elif self.path == "/simple/uv/":
                send(self, PAGE)
            elif self.path == f"/files/{NAME}":
                send(self, WHEEL)
            else:
                self.send_error(404)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

        def log_error(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        server.socket = certificate.wrap_socket(server.socket, server_side=True)
    index = Index(server)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
    return index


@pytest.fixture
def index() -> Iterator[Index]:
    started = start_index()
    yield started
    started.server.shutdown()
    started.server.server_close()


@dataclass(frozen=True)
class Checkout:
    folder: Path

    def command(self) -> list[str]:
        return [sys.executable, "-c", BARE]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        (home / "no-system-file").touch()
        return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PIP_CONFIG_FILE": os.devnull, **env}

    def set_up(self, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            self.command(), cwd=self.folder, env=self.environment(env), capture_output=True, text=True, timeout=4 * WAIT_SECONDS
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def called(self) -> str:
        return (self.folder / "called").read_text()

    @property
    def uv(self) -> Path:
        return self.folder / ".uv" / "bin" / "uv"


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Checkout]:
    def make(address: str, sha256: str = hashlib.sha256(WHEEL).hexdigest()) -> Checkout:
        folder = tmp_path / "checkout"
        (folder / "src").mkdir(parents=True)
        shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        lock = f'[[package]]\nname = "uv"\nwheels = [{{ url = "{address}/files/{NAME}", hash = "sha256:{sha256}" }}]\n'
        (folder / "uv.lock").write_text(lock)
        return Checkout(folder)

    return make


NOWHERE = "http://127.0.0.1:9"  # nobody listens there


def test_uv_comes_from_where_the_lock_says_without_pip_or_venv(index: Index, make: Callable[[str], Checkout]) -> None:
    checkout = make(index.url)
    code, said = checkout.set_up()
    assert (code, index.asked) == (0, [(f"/files/{NAME}", None)]), said
    assert checkout.called.startswith("sync --frozen --group dev")
    assert [path.name for path in checkout.uv.parent.iterdir()] == ["uv"]  # nothing half-made beside it
    assert checkout.set_up()[0] == 0
    assert len(index.asked) == 1  # the second time it is there


def by_file(name: str, text: str) -> Callable[[Checkout, str], dict[str, str]]:
    def configure(checkout: Checkout, url: str) -> dict[str, str]:
        file = checkout.folder / "home" / name
        file.parent.mkdir(parents=True)
        file.write_text(text.format(url=url))
        return {"PIP_CONFIG_FILE": str(file)} if file.name == "named.conf" else {"PIP_CONFIG_FILE": "/no/such/file"}

    return configure


CONFIGURED: dict[str, Callable[[Checkout, str], dict[str, str]]] = {
    "PIP_INDEX_URL": lambda _, url: {"PIP_INDEX_URL": url},
    "UV_DEFAULT_INDEX": lambda _, url: {"UV_DEFAULT_INDEX": url, "PIP_INDEX_URL": NOWHERE},
    "UV_INDEX_URL": lambda _, url: {"UV_INDEX_URL": url + "/"},
    "an extra one": lambda _, url: {"PIP_INDEX_URL": NOWHERE, "PIP_EXTRA_INDEX_URL": f"{NOWHERE}\n {url}"},
    "one with a name": lambda _, url: {"UV_INDEX": f"ours={url}"},
    "pip.conf": by_file(".config/pip/pip.conf", "[global]\nindex-url = {url}\n"),
    "old pip.conf": by_file(".pip/pip.conf", "[global]\nindex_url = http://127.0.0.1:9\n[install]\nindex_url = {url}\n"),
    "PIP_CONFIG_FILE": by_file("elsewhere/named.conf", "[global]\nindex-url={url}\n"),
    "uv.toml": by_file(".config/uv/uv.toml", '[[index]]\nurl = "{url}"\ndefault = true\n'),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("configure", CONFIGURED.values(), ids=CONFIGURED)
def test_uv_comes_from_the_index_that_pip_or_uv_are_configured_for(
    index: Index, make: Callable[[str], Checkout], configure: Callable[[Checkout, str], dict[str, str]]
) -> None:
    checkout = make(NOWHERE)
    code, said = checkout.set_up(**configure(checkout, f"{index.url}/simple"))
    assert code == 0, said
    assert [path for path, _ in index.asked] == ["/simple/uv/", f"/files/{NAME}"]


def test_uv_comes_from_a_folder_where_no_index_may_be_asked(index: Index, make: Callable[[str], Checkout]) -> None:
    checkout = make(index.url)
    (wheels := checkout.folder / "wheels").mkdir()
    code, said = checkout.set_up(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    assert (code, "no package index is allowed" in said) == (1, True)
    (wheels / NAME).write_bytes(WHEEL)
    assert checkout.set_up(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))[0] == 0
    assert index.asked == []


def test_another_file_than_the_lock_names_is_never_run(index: Index, make: Callable[..., Checkout]) -> None:
    checkout = make(index.url, sha256="0" * 64)
    code, said = checkout.set_up(PIP_INDEX_URL=f"{index.url}/simple")
    assert code == 1
    assert "another file than the lock file names" in said
    assert "Traceback" not in said
    assert not checkout.uv.exists()
    assert not (checkout.folder / "called").exists()


def test_a_name_and_password_go_to_their_own_index_and_to_no_screen(index: Index, make: Callable[[str], Checkout]) -> None:
    other = start_index()
    try:

        def away(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", f"{other.url}/files/{NAME}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        index.answers[f"/files/{NAME}"] = [away]
        checkout = make(NOWHERE)
        code, said = checkout.set_up(PIP_INDEX_URL=f"http://jo:s%65cret@127.0.0.1:{index.port}/simple")
        assert code == 0, said
        basic = "Basic " + base64.b64encode(b"jo:secret").decode()
        assert index.asked == [("/simple/uv/", basic), (f"/files/{NAME}", basic)]
        assert other.asked == [(f"/files/{NAME}", None)]
        index.answers["/simple/uv/"] = [lambda handler: handler.send_error(401)]
        shutil.rmtree(checkout.folder / ".uv")
        code, said = checkout.set_up(PIP_INDEX_URL=f"http://jo:s%65cret@127.0.0.1:{index.port}/simple")
        assert (code, "401" in said, "cret" in said) == (1, True, False)
    finally:
        other.server.shutdown()
        other.server.server_close()


@pytest.mark.slow
def test_what_breaks_off_on_the_way_is_fetched_again(index: Index, make: Callable[[str], Checkout]) -> None:
    index.answers[f"/files/{NAME}"] = [
        lambda handler: send(handler, WHEEL[:100], length=len(WHEEL)),
        lambda handler: handler.send_error(503),
    ]
    code, said = make(index.url).set_up()
    assert (code, len(index.asked)) == (0, 3), said


def test_where_no_certificate_can_be_checked_the_hash_decides_and_nothing_secret_is_sent(
    tmp_path: Path, make: Callable[[str], Checkout]
) -> None:
    (folder := tmp_path / "authority").mkdir()
    authority = make_authority(folder)
    secured = start_index(authority.context)
    try:
        address = f"https://localhost:{secured.port}"
        checkout = make(address)
        code, said = checkout.set_up(PIP_INDEX_URL=f"https://jo:secret@localhost:{secured.port}/simple")
        assert (code, "cannot be checked here" in said) == (0, True), said
        assert {credentials for _, credentials in secured.asked} == {None}
        shutil.rmtree(checkout.folder / ".uv")
        code, said = checkout.set_up(PIP_CERT=str(authority.certificate))
        assert (code, "cannot be checked here" in said) == (0, False), said
    finally:
        secured.server.shutdown()
        secured.server.server_close()


def test_where_the_addresses_of_the_lock_do_not_do_all_comes_from_the_configured_index(
    index: Index, make: Callable[[str], Checkout]
) -> None:
    checkout = make(NOWHERE)
    (checkout.folder / "sync-fails").touch()
    code, said = checkout.set_up(PIP_INDEX_URL=f"{index.url}/simple", PIP_TRUSTED_HOST="127.0.0.1")
    assert code == 0, said
    assert "error: no route" in said
    lines = checkout.called.splitlines()
    assert [line.split(" --")[0] for line in lines if line.startswith(("venv", "pip"))] == ["venv", "pip install", "pip install"]
    assert f"UV_DEFAULT_INDEX={index.url}/simple" in lines
    assert "UV_INSECURE_HOST=127.0.0.1" in lines


@pytest.mark.parametrize(("version", "used"), [("0.13.1", True), ("0.4.30", False), ("", False)])
def test_an_installed_uv_is_used_where_it_can_read_the_lock(
    index: Index, make: Callable[[str], Checkout], version: str, used: bool
) -> None:
    checkout = make(index.url)
    installed = checkout.folder / "installed" / "uv"
    installed.parent.mkdir()
    (checkout.folder / "a" / "b").mkdir(parents=True)
    installed.write_text(UV.replace("uv 0.13.8", f"uv {version}").replace('$(dirname "$0")/../..', str(checkout.folder)))
    installed.chmod(0o755)
    code, said = checkout.set_up(PATH=f"{installed.parent}:/usr/bin:/bin")
    assert code == 0, said
    assert index.asked == ([] if used else [(f"/files/{NAME}", None)])


def test_something_moves_on_the_screen_while_packages_come(index: Index, make: Callable[[str], Checkout]) -> None:
    seen = threading.Event()

    def slow(handler: http.server.BaseHTTPRequestHandler) -> None:
        send(handler, WHEEL[:200], length=len(WHEEL))
        assert seen.wait(WAIT_SECONDS)
        handler.wfile.write(WHEEL[200:])

    index.answers[f"/files/{NAME}"] = [slow]
    checkout = make(index.url)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        checkout.command(),
        cwd=checkout.folder,
        env=checkout.environment({"TERM": "xterm"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = ""
    try:
        while True:
            try:
                shown += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # so a terminal ends on Linux
                break
            if shown.count("\r") >= 4 and "MB" in shown:  # it has been written anew, again and again, with nothing coming in
                seen.set()
        assert process.wait(WAIT_SECONDS) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert seen.is_set(), shown
    assert (len(index.asked), "set-up: ready" in shown) == (1, True)


def test_the_lock_has_a_uv_for_this_machine() -> None:
    code = "from pathlib import Path; from fetch_uv import *; print(choose_wheel(locked_wheels(Path('../uv.lock'))).name)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True).stdout
    assert sysconfig.get_platform().rsplit("-")[-1] in found
