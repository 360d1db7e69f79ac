"""`understudy open`: a fresh link for the server that runs; clear words where none does, or where there is no browser."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient, serving_rest
from understudy.testing import CodexHome, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ID = "67e55044-10b1-426f-9247-bb680e5fe0c8"


async def run_open(home: CodexHome, *args: str, **env: str) -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "understudy", "open", *args, env={**home.environment(), **env}, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    return process.returncode or 0, out.decode(), err.decode()


def stand_in_browser(tmp_path: Path) -> Path:
    """Writes down what it is to show."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown.new\nmv {tmp_path}/shown.new {tmp_path}/shown\n')
    browser.chmod(0o755)
    return browser


async def test_a_link_is_made_for_the_server_that_runs_and_logs_in_once(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        code, out, _ = await run_open(server.home, "--print", ID)
        found = re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/login\?code=([A-Z2-7]+)#/c/{ID}\n", out)
        assert code == 0
        assert found is not None
        client = RestClient(server.port)
        for status in (204, 401):
            response = await client.request("POST", "/login", {"code": found[1]}, {"Origin": client.origin})
            assert response.status == status
        await server.stop()
        code, out, err = await run_open(server.home, "--print")
        assert (code, out) == (1, "")
        assert "understudy serve" in err


@pytest.mark.slow
async def test_the_browser_is_given_the_link_in_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    browser = stand_in_browser(tmp_path)
    async with HttpServer(tmp_path) as server:
        assert (await run_open(server.home, BROWSER=f"{browser} %s"))[0] == 0
        shown = (tmp_path / "shown").read_text().strip()
        assert "code=" not in shown
        path = Path(shown.removeprefix("file://"))
        assert path.stat().st_mode & 0o777 == 0o600
        assert f"http://127.0.0.1:{server.port}/login?code=" in path.read_text()


@pytest.mark.slow
async def test_what_is_no_id_is_refused_in_words(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        code, _, err = await run_open(server.home, "<script>")
        assert code == 1
        assert "not the id of a conversation" in err


@pytest.mark.slow
async def test_the_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    async with ScriptedModel([say("Hello.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Greet me")
        code, out, err = await run_open(server.home, "--print", row["id"][:8])
        assert (code, out.strip().endswith(f"#/c/{row['id']}")) == (0, True), err


@pytest.mark.slow
async def test_serve_opens_the_page_when_asked_to(tmp_path: Path) -> None:
    env = {"BROWSER": f"{stand_in_browser(tmp_path)} %s"}
    async with HttpServer(tmp_path, args=("--open",), env=env) as server, asyncio.timeout(WAIT_SECONDS):
        while not (tmp_path / "shown").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        shown = Path((tmp_path / "shown").read_text().strip().removeprefix("file://"))
        assert f"http://127.0.0.1:{server.port}/login?code=" in shown.read_text()


@pytest.mark.slow
async def test_a_question_s_news_carry_a_link_that_answers_nothing_by_being_fetched(tmp_path: Path) -> None:
    told = tmp_path / "told"
    asks = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="why not")
    config = {
        "approval_policy": "on-request",
        "sandbox_mode": "workspace-write",
        "understudy.on_question.command": ["sh", "-c", f'printf %s "$0" > {told}.new; mv {told}.new {told}'],
    }
    async with ScriptedModel([asks, say("Done.")]) as model, serving_rest(tmp_path, model, config=config) as (server, client):
        row = await client.create(server.cwd, "Make it")
        async with asyncio.timeout(WAIT_SECONDS):
            while not told.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        link = json.loads(told.read_text())["link"]
        assert link == f"{client.origin}/#/c/{row['id']}"
        nobody = RestClient(server.port)
        for method in ("GET", "HEAD", "POST"):
            assert (await nobody.request(method, "/", None if method != "POST" else {})).status == (
                405 if method == "POST" else 200
            )
        [question] = (await client.get(f"/v1/conversations/{row['id']}"))["questions"]
        stream = await client.stream(row["id"])
        await client.post(f"/v1/conversations/{row['id']}/decisions", {"call_id": question["call_id"], "decision": "denied"})
        await stream.until("task_complete")
