"""The commands of docs/rest.md, run with bash and curl against a real server."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.support.rest_client import serving_rest
from understudy.testing import ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

PAGE = Path(__file__).parents[3] / "docs" / "rest.md"


@pytest.mark.slow
async def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    script = "set -eu\n" + "".join(blocks)
    async with ScriptedModel([say("Hello."), say("Hello again.")]) as model, serving_rest(tmp_path, model) as (server, client):
        env = {**server.home.environment(), "URL": client.origin, "TOKEN": server.token}
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, cwd=server.cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
        assert process.returncode == 0, err.decode()
        assert int(out.split()[0]) > 3
        begun = json.loads((server.cwd / "begun.json").read_text())
        read = json.loads((server.cwd / "page.json").read_text())
        assert "Hello." in [event["msg"].get("message") for event in read["events"]]
        stream = await client.stream(begun["id"], f"?after={read['end']}")
        await stream.until_it(lambda told: told["msg"].get("last_agent_message") == "Hello again.")


@pytest.mark.parametrize("wanted", ["/v1/me", "/v1/changes", "/v1/conversations"])
def test_the_page_names_the_addresses(wanted: str) -> None:
    assert wanted in PAGE.read_text()
