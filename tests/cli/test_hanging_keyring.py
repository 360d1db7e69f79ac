"""A key in a keyring that waits for a person: the turn that needs the key waits, and everybody else is served."""

import asyncio
from pathlib import Path

from tests.cli.program import Program
from tests.cli.test_login_keyring import KEY, Ring, choose
from understudy.testing import CodexHome, McpProcess, ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS


async def test_while_a_keyring_hangs_a_ping_is_answered_and_the_turn_goes_on_once_it_is_unlocked(
    program: Program, tmp_path: Path
) -> None:
    ring = Ring(tmp_path)
    async with ScriptedModel([say("Hello."), say("Again.")]) as model:
        table = f'[model_providers.own]\nname = "Own"\nbase_url = "{model.url}"\nwire_api = "chat"\n'
        choose(program, "keyring", f'model = "m"\nmodel_provider = "own"\n{table}')
        assert program.run("login", "--provider", "own", stdin=KEY, env=ring.env).code == 0
        ring.hang()
        async with McpProcess(home=CodexHome(program.home), cwd=program.cwd, env=ring.env) as client:
            call = client.codex("hello")
            async with asyncio.timeout(WAIT_SECONDS):
                while not ring.times_asked:  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(0.02)
            await client.request("ping")
            assert client.find_response(call.id) is None
            ring.go_on()
            assert (await call)["content"][0]["text"] == "Hello."
            assert ring.times_asked == 1
            assert (await client.codex("again"))["content"][0]["text"] == "Again."
            assert ring.times_asked == 1
