"""What the keys of `[understudy.serve]` do, shown with the real program."""

import asyncio
import grp
import os
import pwd
import sqlite3
import ssl
import stat
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.models.authority import make_authority
from tests.support.http_server import HttpClient, HttpServer
from tests.support.rest_client import RestClient
from tests.support.token_issuer import TokenIssuer
from understudy import Understudy, UnderstudyError
from understudy.testing import HOLD, ScriptedModel, call, deltas, hang, say
from understudy.testing.waiting import WAIT_SECONDS


def settings(**given: Any) -> dict[str, Any]:
    return {f"understudy.serve.{name}": value for name, value in given.items()}


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def show_who_may_come_in(folder: Path) -> None:
    """`host`, `port`, `token_file`, `public_url`, `allow_host`, `allow_origin` and `max_body_mb`."""
    token = folder / "my.token"
    given = settings(
        host="localhost",
        port=0,
        token_file=str(token),
        allow_host=["other.example"],
        allow_origin=["https://page.example"],
        max_body_mb=1,
    )
    async with HttpServer(made(folder), None, config=given, port_flag=False) as server:
        assert "://localhost:" in server.said[0]
        client = HttpClient(server.port, token.read_text().strip())
        await client.initialize()
        assert (await client.post("ping", Host="other.example")).status == 200
        assert (await client.post("ping", Host="else.example")).status == 421
        allowed = await client.post("ping", Origin="https://page.example")
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, "https://page.example")
        assert (await client.post("ping", Origin="https://else.example")).status == 403
        assert (await client.post("ping", {"long": "x" * (1 << 20)})).status == 413
    public = settings(public_url="https://agent.example/", port=0)
    server = HttpServer(made(folder / "public"), None, config=public, port_flag=False)
    await server.start()
    assert server.said == ["understudy serves MCP at https://agent.example/mcp"]
    assert await server.stop() == 0


async def show_a_socket(folder: Path) -> None:
    """`unix`, `unix_group` and `users`."""
    with tempfile.TemporaryDirectory(prefix="us") as short:
        path = Path(short) / "s"
        group = grp.getgrgid(os.getegid()).gr_name
        given = settings(unix=str(path), unix_group=group, users={pwd.getpwuid(os.geteuid()).pw_name: "reader"})
        server = HttpServer(made(folder), None, config=given, port_flag=False)
        await server.make_token("reader", "--rights", "read")
        async with server:
            status = os.lstat(path)
            assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, os.getegid())
            async with Understudy(url=f"unix://{path}") as agent:
                with pytest.raises(UnderstudyError, match="run"):
                    await agent.start("this needs a right that the token has not")


async def show_tls_and_no_token(folder: Path) -> None:
    """`tls_cert`, `tls_key` and `no_auth`."""
    authority = make_authority(made(folder))
    given = settings(port=0, no_auth=True, tls_cert=str(folder / "server.pem"), tls_key=str(folder / "server.key"))
    async with HttpServer(made(folder / "tls"), None, config=given, port_flag=False) as server:
        assert "https://" in server.said[0]
        context = ssl.create_default_context(cafile=authority.certificate)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status = await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
        assert status.split()[1] == b"400"  # a session is missing, and not a token
        writer.transport.abort()
        await asyncio.sleep(0)


async def show_limits_of_a_named_token(folder: Path) -> None:
    """`rate` and `concurrency`."""
    async with HttpServer(made(folder), None, config=settings(port=0, rate=1, concurrency=0), port_flag=False) as server:
        client = HttpClient(server.port, await server.add_token("alice"))
        pings = await asyncio.gather(*(client.post("ping") for _ in range(20)))  # two may come at once, and one each second
        assert 429 in {ping.status for ping in pings}
    async with HttpServer(made(folder / "open"), None, config=settings(port=0, rate=0, concurrency=1), port_flag=False) as server:
        client = HttpClient(server.port, await server.add_token("alice"))
        await client.initialize()
        assert (await client.listen()).status == 200
        assert (await client.post("ping")).status == 429


async def show_what_becomes_of_turns(folder: Path) -> None:
    """`on_disconnect` and `drain_seconds`."""
    given = settings(on_disconnect="keep", drain_seconds=0, port=0)
    async with (
        ScriptedModel([deltas(["a", HOLD, "b"]), say("and on"), hang()]) as model,
        HttpServer(made(folder), model, config=given, port_flag=False) as server,
    ):
        client = HttpClient(server.port, server.token)
        response = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}})
        thread = ""
        async for event in response.events():
            thread = event["data"]["params"]["_meta"]["threadId"]
            if event["data"]["params"]["msg"]["type"] == "agent_message_delta":
                break
        response.close()
        model.release()
        await client.initialize()
        result = await client.result("codex-reply", {"threadId": thread, "prompt": "go on"})
        assert result["structuredContent"]["content"] == "and on"
        assert [message["content"] for message in model.received[1].body["messages"] if message["role"] == "assistant"] == ["ab"]
        running = await client.call("codex", {"prompt": "x"})
        await model.next_request(3)
        assert await server.stop() == 0
        assert (await running.messages())[-1]["result"]["error"] == "Turn interrupted"


async def show_what_those_who_run_it_are_told(folder: Path) -> None:
    """`metrics` and `log_format`."""
    given = settings(metrics="open", log_format="json", port=0)
    async with HttpServer(made(folder), None, config=given, port_flag=False) as server:
        assert (await HttpClient(server.port, None).request("GET", path="/metrics")).status == 200
        (server.home.path / "understudy" / "tokens.toml").write_text("no token")  # a file of others could read it: an error is told
        await _said(server, '"level":"error"')


async def show_what_is_kept(folder: Path) -> None:
    """`keep_days` and `max_store_mb`."""
    async with ScriptedModel([say("ok")]) as model:
        async with HttpServer(made(folder), model, port_flag=False, config=settings(port=0)) as server:
            client = HttpClient(server.port, server.token)
            await client.initialize()
            await client.result("codex", {"prompt": os.urandom(1 << 20).hex()})
        full = settings(port=0, max_store_mb=1)
        async with HttpServer(folder, model, port_flag=False, config=full) as server:
            await _said(server, "the store is full")
        with closing(sqlite3.connect(folder / "user" / ".codex" / "understudy" / "conversations.db", isolation_level=None)) as raw:
            raw.execute("UPDATE conversations SET updated_at = updated_at - 3 * 86400")
        async with HttpServer(folder, model, port_flag=False, config=settings(port=0, keep_days=2)) as server:
            await _said(server, "`keep_days` is 2")


async def _said(server: HttpServer, text: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while text not in server.stderr:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def show_from_where_a_decision_came(folder: Path) -> None:
    """`trusted_proxies`."""
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    given = {**settings(port=0, trusted_proxies=["127.0.0.0/8"]), "approval_policy": "untrusted"}
    async with (
        ScriptedModel(script) as model,
        HttpServer(made(folder), model, config=given, port_flag=False) as server,
    ):
        rest = RestClient(server.port, server.token)
        thread = (await rest.create(server.cwd, "x"))["id"]
        events = await rest.stream(thread)
        await events.until("exec_approval_request")
        answer = {"call_id": "call1", "decision": "approved"}
        far = {"X-Forwarded-For": "203.0.113.7"}
        assert (await rest.request("POST", f"/v1/conversations/{thread}/decisions", answer, far)).status == 200
        assert (await events.until("approval_decided"))["msg"]["address"] == "203.0.113.7"
        await events.until("task_complete")


async def show_tokens_of_an_issuer(folder: Path) -> None:
    """`issuer` and `audience`."""
    async with TokenIssuer() as issuer:
        given = settings(port=0, issuer=issuer.url, audience="api://agents")
        async with HttpServer(made(folder), None, port_flag=False, config=given) as server:
            for audience, status in (("api://agents", 400), (server.url, 401)):
                client = HttpClient(server.port, issuer.token(aud=audience))
                assert (await client.request("DELETE")).status == status


async def show_what_those_of_an_issuer_may_choose(folder: Path) -> None:
    """`subjects`, `groups` and `groups_claim`."""
    async with TokenIssuer() as issuer:
        given = settings(
            port=0,
            issuer=issuer.url,
            audience="api://agents",
            groups_claim="teams",
            **{
                "subjects.alice.roots": ["/srv/alice"],
                "subjects.alice.sandbox": ["read-only"],
                "groups.crew.roots": ["/srv/crew"],
                "groups.crew.sandbox": ["workspace-write"],
            },
        )
        async with HttpServer(made(folder), None, port_flag=False, config=given) as server:
            for subject, mode in (("alice", "read-only"), ("crew", "workspace-write")):
                token = issuer.token(aud="api://agents", sub=subject, teams=["crew"])
                told = await RestClient(server.port, token).get("/v1/me")
                assert (told["roots"], told["sandbox_modes"]) == ([f"/srv/{subject}"], [mode])


SHOWN = {
    show_who_may_come_in: ("host", "port", "token_file", "public_url", "allow_host", "allow_origin", "max_body_mb"),
    show_a_socket: ("unix", "unix_group", "users"),
    show_tls_and_no_token: ("tls_cert", "tls_key", "no_auth"),
    show_limits_of_a_named_token: ("rate", "concurrency"),
    show_what_those_who_run_it_are_told: ("metrics", "log_format"),
    show_what_is_kept: ("keep_days", "max_store_mb"),
    show_from_where_a_decision_came: ("trusted_proxies",),
    show_tokens_of_an_issuer: ("issuer", "audience"),
    show_what_those_of_an_issuer_may_choose: (
        "groups_claim",
        "subjects.*.roots",
        "subjects.*.sandbox",
        "groups.*.roots",
        "groups.*.sandbox",
    ),
    show_what_becomes_of_turns: ("on_disconnect", "drain_seconds"),
}
