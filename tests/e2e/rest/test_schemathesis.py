"""Schemathesis, which makes requests of the OpenAPI document, good and bad ones, and judges the answers by it."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.support.environments import python_with
from tests.support.rest_client import serving_rest
from understudy.servers.rest.routes import ROUTES
from understudy.testing import ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

ENDLESS = "/v1/changes"  # always a stream, which it would read until its time is up
VERSION = "schemathesis==4.32.5"

# Left out is what a document cannot say: that images belong to a prompt, that there is something to undo, that a question is open.
BEYOND_A_SCHEMA = "positive_data_acceptance,ensure_resource_availability"
FINITE = [route for route in ROUTES if route.path != ENDLESS]


async def run(program: Path, folder: Path, *words: str) -> str:
    folder.mkdir()
    common = ["--no-color", "--generation-deterministic", "--request-timeout", "10"]
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        *common,
        "--exclude-path",
        ENDLESS,
        "--continue-on-failure",
        "--exclude-checks",
        BEYOND_A_SCHEMA,
        "--generation-with-security-parameters",  # a token or a cookie is needed, and not both
        "false",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(12 * WAIT_SECONDS):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = out.decode(errors="replace")
    assert process.returncode == 0, told
    return told


@pytest.mark.slow
async def test_every_answer_to_good_and_bad_requests_is_one_that_the_document_describes(tmp_path: Path) -> None:
    program = python_with(VERSION).parent / "schemathesis"
    async with ScriptedModel(lambda _: say("Yes.")) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Hello")
        await (await client.stream(row["id"])).until("task_complete")
        (tmp_path / "one.toml").write_text(f'[parameters]\n"path.id" = "{row["id"]}"\n')
        asks = ["run", f"http://127.0.0.1:{server.port}/openapi.json", "-H", f"Authorization: Bearer {server.token}"]

        about_one = [route for route in FINITE if route.method != "DELETE"]  # one conversation, which is there all the time
        words = ["--config-file", str(tmp_path / "one.toml"), *asks, "--exclude-method", "DELETE"]
        told = await run(program, tmp_path / "1", *words, "--phases", "coverage,fuzzing", "--max-examples", "20")
        assert f"Tested: {len(about_one)}" in told, told

        words = [*asks, "--phases", "fuzzing,stateful", "--max-examples", "6"]  # and such as it makes and deletes itself
        told = await run(program, tmp_path / "2", *words)
        assert f"Tested: {len(FINITE)}" in told, told
