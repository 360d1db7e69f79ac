"""Images that a caller names by their path: what stands there may be the work of the model, or of whoever made the repository."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.golden_exec.play import PNG
from tests.security.house import ENV, KEY, KEY_VARIABLE, SSH_KEY, House, house
from tests.support.app_client import AppClient, RpcFailed
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import CodexHome, McpProcess, ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

Said = AsyncIterator[str]  # what is told of each file
SWAPPED = ("key.png", "environ.png", "face.png", "hard.png", "pipe.png")


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


def plant(place: House) -> None:
    """As a command of the model could have left it: nothing here needs more than writing in the project."""
    private = place.project / "private"
    private.mkdir()
    (private / "face.png").write_bytes(PNG)
    (place.project / "key.png").symlink_to(place.home / ".ssh" / "id_ed25519")
    (place.project / "environ.png").symlink_to("/proc/self/environ")
    (place.project / "face.png").symlink_to(private / "face.png")
    os.link(private / "face.png", place.project / "hard.png")
    os.mkfifo(place.project / "pipe.png")


@dataclass
class Doors:
    place: House
    model: ScriptedModel

    @property
    def config(self) -> dict[str, Any]:
        mask = [str(self.place.home / ".ssh"), str(self.place.project / "private")]
        return {"model_providers.mock.env_key": KEY_VARIABLE, "understudy.sandbox.mask": mask}

    def server(self) -> McpProcess:
        return McpProcess(self.model.url, cwd=self.place.project, home=self.place.settings, config=self.config, env=ENV)

    async def codex(self) -> Said:
        async with self.server() as client:
            for name in SWAPPED:
                yield json.dumps(await client.call_tool("codex", prompt="look", images=[name]))
            thread = (await client.call_tool("codex", prompt="hello"))["structuredContent"]["threadId"]
            for name in SWAPPED:
                yield json.dumps(await client.call_tool("codex-reply", threadId=thread, prompt="look", images=[name]))

    async def conversation(self) -> Said:
        async with self.server() as client:
            created = (await client.call_tool("conversationCreate"))["structuredContent"]["conversation_id"]
            for name in SWAPPED:
                content = [{"type": "text", "text": "look"}, {"type": "local_image", "path": name}]
                yield json.dumps(await client.call_tool("conversationSendMessage", conversation_id=created, content=content))

    async def rest(self) -> Said:
        async with HttpServer(self.place.home, self.model, config=self.config, env=ENV) as server:
            client = RestClient(server.port, server.token)
            row = await client.create(self.place.project)
            for name in SWAPPED:
                body = {"prompt": "look", "folder": str(self.place.project), "images": [name]}
                created = await client.request("POST", "/v1/conversations", body)
                assert created.status == 400
                yield (await created.body()).decode()
                sent = await client.request("POST", f"/v1/conversations/{row['id']}/messages", {"text": "look", "images": [name]})
                assert sent.status == 400
                yield (await sent.body()).decode()

    async def app_server(self) -> Said:
        CodexHome(self.place.settings, self.model, config=self.config)
        async with AppClient(self.place.settings, self.place.project, env=ENV) as client:
            thread = (await client.call("thread/start"))["thread"]["id"]
            for name in SWAPPED:
                content = [{"type": "text", "text": "look"}, {"type": "localImage", "path": name}]
                with pytest.raises(RpcFailed) as failed:
                    await client.call("turn/start", threadId=thread, input=content)
                yield failed.value.message

    async def exec(self) -> Said:
        for name in SWAPPED:
            yield await self._exec("-i", name)

    async def schema(self) -> Said:
        """The form of an answer is sent to the model as well."""
        for name in SWAPPED:
            yield await self._exec("--output-schema", name)

    async def _exec(self, *words: str) -> str:
        home = CodexHome(self.place.settings, self.model, config=self.config)
        command = (sys.executable, "-m", "understudy", "exec", "--skip-git-repo-check", *words, "look")
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.place.project,
            env=home.environment(ENV),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
        assert process.returncode == 1
        return (out + err).decode()


DOORS: list[Callable[[Doors], Said]] = [Doors.codex, Doors.conversation, Doors.rest, Doors.app_server, Doors.exec, Doors.schema]


@pytest.mark.quick(1)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_no_door_takes_what_is_masked_or_no_file_for_an_image(place: House, door: Callable[[Doors], Said]) -> None:
    plant(place)
    model = ScriptedModel(lambda request: say("I see."))
    async with model.serving():
        async for said in door(Doors(place, model)):
            assert any(word in said for word in ("masked", "not part of what a command could read", "not a regular file")), said
        sent = json.dumps(model.requests)
    for secret in (KEY, SSH_KEY):
        assert base64.b64encode(secret.encode())[:30].decode() not in sent
        assert secret not in sent
    assert "base64," not in sent
