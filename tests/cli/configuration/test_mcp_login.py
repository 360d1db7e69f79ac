"""`understudy mcp login`: OAuth for MCP servers, kept in a file, renewed when it expires, and used for that server alone."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.configuration.oauth_server import OAuthServer
from tests.cli.program import Ended, Program
from understudy.testing.waiting import WAIT_SECONDS


def configured(program: Program, server: OAuthServer) -> None:
    program.configure(f'[mcp_servers.guarded]\nurl = "{server.base}/mcp"\n')


def file_of(program: Program) -> Path:
    return program.home / "understudy" / "mcp_credentials.json"


def visit(address: str) -> None:
    with urllib.request.urlopen(address, timeout=WAIT_SECONDS) as page:
        assert page.status == 200


def log_in(program: Program, *more: str, visit: Callable[[str], None] = visit) -> Ended:
    """With this test as the person's browser."""
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "mcp", "login", "guarded", "--no-browser", *more],
        cwd=program.cwd,
        env=program.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"^  (http://\S+)$", said, re.MULTILINE)) and (line := process.stderr.readline()):
            said += line
        if found is not None:
            visit(found[1])
        out, err = process.communicate(timeout=WAIT_SECONDS)
        return Ended(process.returncode, out, said + err)
    finally:
        process.kill()
        process.wait()


def tools(program: Program) -> list[Any]:
    ended = program.run("mcp", "test", "guarded", "--json")
    assert "Traceback" not in ended.err
    return json.loads(ended.out)


@pytest.mark.slow
def test_a_login_is_kept_used_and_forgotten(program: Program) -> None:
    with OAuthServer() as server:
        configured(program, server)
        [before] = tools(program)
        assert before["works"] is False
        assert "understudy mcp login guarded" in before["error"]
        ended = log_in(program)
        assert ended.code == 0, ended.err
        assert "logged in to guarded" in ended.err
        assert not any(secret in ended.err + ended.out for secret in (*server.access, *server.refresh))
        assert stat.S_IMODE(os.stat(file_of(program)).st_mode) == 0o600
        assert server.clients[0]["redirect_uris"][0].startswith("http://127.0.0.1:")
        [after] = tools(program)
        assert (after["works"], [tool["name"] for tool in after["tools"]]) == (True, ["ok"])
        forgotten = program.run("mcp", "logout", "guarded")
        assert (forgotten.code, "is forgotten" in forgotten.err) == (0, True)
        assert "at-" not in file_of(program).read_text()
        assert tools(program)[0]["works"] is False
        assert "there was no login" in program.run("mcp", "logout", "guarded").err


@pytest.mark.slow
def test_what_has_expired_is_renewed_by_whoever_needs_it_and_a_lost_login_is_told(program: Program) -> None:
    with OAuthServer() as server:
        configured(program, server)
        assert log_in(program).code == 0
        file = file_of(program)
        kept = json.loads(file.read_text())
        kept[f"{server.base}/mcp"]["expires_at"] = 1.0
        file.write_text(json.dumps(kept))
        assert tools(program)[0]["works"] is True
        assert server.renewed == 1
        assert tools(program)[0]["works"] is True  # with what the first one has kept
        assert server.renewed == 1
        server.access.clear()
        server.refresh.clear()
        [lost] = tools(program)
        assert (lost["works"], "a login again" in lost["error"]) == (False, True)


@pytest.mark.slow
def test_tokens_go_to_no_other_address(program: Program) -> None:
    with OAuthServer() as server, OAuthServer() as other:
        configured(program, server)
        assert log_in(program).code == 0
        other.access |= server.access
        program.configure(f'[mcp_servers.guarded]\nurl = "{other.base}/mcp"\n')
        assert tools(program)[0]["works"] is False


@pytest.mark.slow
def test_a_client_that_is_registered_already(program: Program) -> None:
    with OAuthServer() as server:
        configured(program, server)
        assert log_in(program, "--client-id", "mine").code == 0
        assert server.clients == []
        assert tools(program)[0]["works"] is True


@pytest.mark.slow
def test_a_person_who_refuses(program: Program) -> None:
    with OAuthServer() as server:
        configured(program, server)
        server.refused = "access_denied"
        refused = log_in(program)
        assert (refused.code, "access_denied" in refused.err) == (1, True)
        assert "\x1b" not in refused.err
        assert not file_of(program).exists()
        assert "Traceback" not in refused.err


@pytest.mark.slow
def test_what_another_page_sends_to_the_way_back_ends_no_login(program: Program) -> None:
    with OAuthServer() as server:
        configured(program, server)

        def visit_after_others(address: str) -> None:
            back: str = server.clients[0]["redirect_uris"][0]
            server.wrong_state = True
            for theirs in (address, f"{back}?state=guessed&error=no", f"{back}?state=&code=x", f"{back}?code=x"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    visit(theirs)
            with socket.create_connection(("127.0.0.1", urlsplit(back).port or 0), timeout=WAIT_SECONDS) as odd:
                odd.sendall(b"GET http://[ HTTP/1.1\r\n\r\n")
                assert odd.recv(1) == b""
            server.wrong_state = False
            visit(address)

        ended = log_in(program, visit=visit_after_others)
        assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
        assert tools(program)[0]["works"] is True


@pytest.mark.slow
def test_a_browser_that_is_waited_for_is_answered_meanwhile(program: Program, tmp_path: Path) -> None:
    browser = tmp_path / "browser.py"
    browser.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n")
    with OAuthServer() as server:
        configured(program, server)
        ended = program.run("mcp", "login", "guarded", env={"BROWSER": f"{sys.executable} {browser} %s"})
        assert (ended.code, "A browser was opened" in ended.err, "logged in to" in ended.err) == (0, True, True), ended.err


@pytest.mark.slow
def test_an_address_that_leads_elsewhere_is_not_taken_for_one_that_asks_for_no_login(program: Program) -> None:
    with OAuthServer(open_door=True) as server:
        program.configure(f'[mcp_servers.guarded]\nurl = "{server.base}/mcp"\n')
        server.moved = True
        ended = program.run("mcp", "login", "guarded", "--no-browser")
        assert (ended.code, "HTTP status 307" in ended.err) == (1, True), ended.err


@pytest.mark.slow
def test_a_server_that_asks_for_none(program: Program) -> None:
    with OAuthServer(open_door=True) as server:
        configured(program, server)
        ended = program.run("mcp", "login", "guarded", "--no-browser")
        assert (ended.code, "asks for no login" in ended.err) == (0, True)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('command = "true"', "is a program"),
        ('url = "http://192.0.2.1/mcp"', "no https address"),
        ('url = "https://127.0.0.1/mcp"\nbearer_token_env_var = "T"', "a token in its configuration"),
        ('url = "http://127.0.0.1:1/mcp"', "cannot be reached"),
    ],
)
def test_what_cannot_be_logged_in_to(program: Program, table: str, said: str) -> None:
    program.configure(f"[mcp_servers.guarded]\n{table}\n")
    ended = program.run("mcp", "login", "guarded", "--no-browser")
    assert (ended.code, said in ended.err, "Traceback" in ended.err) == (1, True, False), ended.err


def test_a_name_that_is_none(program: Program) -> None:
    program.configure('[mcp_servers.guarded]\nurl = "https://127.0.0.1/mcp"\n')
    ended = program.run("mcp", "login", "garded")
    assert (ended.code, "did you mean `guarded`" in ended.err) == (1, True)
