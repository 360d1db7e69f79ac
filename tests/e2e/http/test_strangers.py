"""Who is not let in: foreign Hosts and Origins, wrong tokens, smuggled and endless heads, clients that never read or finish."""

import asyncio
import json
import os
from base64 import urlsafe_b64encode
from pathlib import Path

import msgspec
import pytest

from tests.support.http_server import HttpClient, HttpServer, serving
from tests.support.rest_client import RestClient
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

LISTING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()


HOSTS_AND_ORIGINS = [
    ("127.0.0.1:1", None, 200),
    ("localhost", None, 200),
    ("[::1]:80", None, 200),
    ("evil.example", None, 421),
    ("127.0.0.1.evil.example", None, 421),
    ("localhost.evil.example:8722", None, 421),
    ("evil.example@localhost", None, 421),
    ("", None, 421),
    (None, None, 421),
    ("localhost", "http://localhost:3000", 200),
    ("localhost", "https://evil.example", 403),
    ("localhost", "http://localhost.evil.example", 403),
    ("localhost", "null", 403),
    ("localhost", "file://", 403),
    ("localhost", "http://evil.example@localhost", 403),
]


async def test_only_known_hosts_and_origins_are_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        for host, origin, status in HOSTS_AND_ORIGINS:
            response = await client.request("POST", {**client.session_headers(), "Host": host, "Origin": origin}, LISTING)
            assert response.status == status, (host, origin)
            if status != 200:
                assert b"tools" not in await response.body()


async def test_without_a_token_pages_on_other_ports_of_this_machine_are_kept_out(tmp_path: Path) -> None:
    async with HttpServer(tmp_path, None, args=("--no-auth",)) as server:
        client = HttpClient(server.port, None)
        await client.initialize()
        assert (await client.post("ping", Origin=f"http://localhost:{server.port}")).status == 200
        assert (await client.post("ping", Origin="http://localhost:1")).status == 403
        assert (await client.post("ping", Host="evil.example")).status == 421
    assert "NO TOKEN IS ASKED FOR" in server.stderr


async def test_without_a_valid_token_nothing_is_answered_and_the_token_is_never_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        token = server.token
        wrong = [
            None,
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {token}x",
            f"Bearer {token[:-1]}",
            f"Basic {token}",
            token,
            "Bearer " + "x" * 100_00,
        ]
        for header in wrong:
            for method in ("POST", "GET", "DELETE"):
                response = await client.request(method, {"Authorization": header}, LISTING if method == "POST" else b"")
                assert response.status == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
        by_address = HttpClient(server.port, None)
        for query in (f"?token={token}", f"?access_token={token}"):
            assert (await by_address.request("POST", body=LISTING, path=f"/mcp{query}")).status == 401
        assert (server.home.path / "understudy" / "token").stat().st_mode & 0o777 == 0o600
        health = await by_address.request("GET", path="/healthz")
        assert (health.status, await health.json()) == (200, {"status": "ok"})
        assert (await by_address.request("GET", path="/other")).status == 404
        await server.stop()
        assert token not in server.stderr
        assert server.stderr.count("us_") == 0


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "more",
    [
        "Content-Length: {length}\r\nTransfer-Encoding: chunked",
        "Content-Length: {length}\r\nContent-Length: 47",
        "Content-Length: {length}\r\nAuthorization: Bearer other",
        "Content-Length: {length}\r\nHost: evil.example",
        "Content-Length: {length}\r\nOrigin: http://localhost\r\nOrigin: http://evil.example",
        "Content-Length: {length}\r\nContent-Type: text/plain",
        "Content-Length: -1",
        "Content-Length: {length}\r\n folded: x",
        "Content-Length: {length}\r\nX-Bad\0name: x",
    ],
)
async def test_heads_that_two_readers_could_understand_differently_are_refused(tmp_path: Path, more: str) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        head = [
            "POST /mcp HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {client.token}",
            f"Mcp-Session-Id: {client.session}",
            "Content-Type: application/json",
            more,
            "",
            "",
        ]
        head = [line.replace("{length}", str(len(LISTING))) for line in head]
        response = await client.raw("\r\n".join(head).encode("latin-1") + LISTING)
        assert 400 <= response.status < 500


@pytest.mark.slow
@pytest.mark.parametrize("conversation", ["../../etc/passwd", "", "\0", "x" * 5000, "67e55044-10b1-426f-9247-bb680e5fe0c8"])
async def test_an_answer_to_a_question_that_never_was_is_taken_and_does_nothing(tmp_path: Path, conversation: str) -> None:
    name = urlsafe_b64encode(msgspec.msgpack.encode((conversation, "turn", "call", b"12345678"))).decode()
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        response = await client.send({"jsonrpc": "2.0", "id": f"q.{name}", "result": {"action": "accept"}})
        assert (response.status, await response.body()) == (202, b"")


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{"requestState": 5}, {"inputResponses": []}, {"requestState": "x", "inputResponses": "y"}])
async def test_a_round_of_the_wrong_form_is_an_error_of_the_request(tmp_path: Path, wrong: dict[str, object]) -> None:
    async with serving(tmp_path) as (_, client):
        response = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}, **wrong})
        assert (response.status, (await response.json())["error"]["code"]) == (400, -32602)


@pytest.mark.slow
async def test_a_head_without_an_end_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        endless = b"GET /mcp HTTP/1.1\r\n" + b"X-Long: " + b"a" * 200_000
        try:
            assert (await client.raw(endless)).status == 400
        except ConnectionError:
            pass  # it was let go without a word
        await client.initialize()
        assert (await client.post("ping")).status == 200


@pytest.mark.slow
async def test_many_connections_that_say_nothing_keep_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        idle = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(300)]
        for _, writer in idle[:150]:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Sl")
        await client.initialize()
        assert (await client.post("ping")).status == 200
        for _, writer in idle:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_a_client_that_never_reads_does_not_hold_up_the_turn_or_the_others(tmp_path: Path) -> None:
    piece = "x" * 1000
    script = [deltas([HOLD, *[piece] * 4000]), say("quick")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        stuck = await client.call("codex", {"prompt": "long"})
        await model.next_request(1)
        model.release()
        result = await client.result("codex", {"prompt": "short"})
        assert result["structuredContent"]["content"] == "quick"
        text = [e["data"] async for e in stuck.events() if e.get("data")]  # it reads after all, and gets everything
        said = "".join(
            m["params"]["msg"]["delta"] for m in text if m.get("params", {}).get("msg", {}).get("type") == "agent_message_delta"
        )
        assert text[-1]["result"]["structuredContent"]["content"] == piece * 4000
        assert said in (piece * 4000, "") or (piece * 4000).startswith(said)


@pytest.mark.slow
async def test_a_contained_command_cannot_approve_for_itself(tmp_path: Path) -> None:
    """Even where it may reach the network: it has no token, and cannot read ours."""
    probe = (
        "import urllib.request, urllib.error, os, sys\n"
        "try: print('TOKEN', open(os.environ['TOKEN_FILE']).read())\n"
        "except OSError as e: print('no token:', type(e).__name__)\n"
        "try: print('ANSWERED', urllib.request.urlopen(urllib.request.Request(os.environ['SERVER'], data=b'{}',"
        " headers={'Content-Type': 'application/json'}), timeout=60).status)\n"
        "except urllib.error.HTTPError as e: print('refused with', e.code)\n"
        "except OSError as e: print('not reached')\n"
    )
    script = [call("shell", command=["python3", "-c", probe]), say("done")]
    config = {"approval_policy": "never", "sandbox_mode": "workspace-write", "understudy.sandbox.network": "on"}
    async with ScriptedModel(script) as model, HttpServer(tmp_path, model, config=config) as server:
        client = HttpClient(server.port, server.token)
        await client.initialize()
        token_file = str(server.home.path / "understudy" / "token")
        setting = {"shell_environment_policy.set": {"TOKEN_FILE": token_file, "SERVER": server.url}}
        await client.result("codex", {"prompt": "try", "config": setting})
        told = [m["content"] for m in model.received[-1].body["messages"] if m["role"] == "tool"][-1]
        assert "no token:" in told
        assert "refused with 401" in told
        assert server.token not in told


RULE = {"name": "probes", "prefix": ["python3"], "decision": "allow", "network": "on"}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "setting",
    [
        {"understudy.sandbox.network": "on"},
        {"sandbox_workspace_write.network_access": True},
        {"policy.rules": [RULE]},
    ],
)
async def test_without_a_token_no_contained_command_may_reach_the_network(tmp_path: Path, setting: dict[str, object]) -> None:
    """Else it could approve for itself."""
    async with ScriptedModel([say("done"), say("again")]) as model, HttpServer(tmp_path, model, args=("--no-auth",)) as server:
        client = HttpClient(server.port, None)
        await client.initialize()
        asked = {"prompt": "x", "cwd": str(server.cwd), "sandbox": "workspace-write"}
        refused = await client.result("codex", asked | {"config": setting})
        assert refused["isError"] is True
        assert "it could approve for itself" in refused["content"][0]["text"]
        status, _ = await RestClient(server.port).status("GET", "/v1/me")
        assert status == 200
        loopback = await client.result("codex", asked | {"config": {"understudy.sandbox.network": "loopback"}})
        assert loopback["structuredContent"]["content"] == "done"
        free = await client.result("codex", asked | {"config": setting, "sandbox": "danger-full-access"})
        assert free["structuredContent"]["content"] == "again"


@pytest.mark.parametrize("by", ["flag", "configuration"])
async def test_a_token_that_is_kept_elsewhere_is_neither_read_nor_replaced_by_a_contained_command(tmp_path: Path, by: str) -> None:
    token_file = tmp_path / "work" / "keys" / "token"
    steal = "cat keys/token; cp keys/token mine; echo us_of_the_command_itself > keys/token; rm -rf keys; true"
    config: dict[str, object] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
    flags = ("--token-file", str(token_file)) if by == "flag" else ()
    if by == "configuration":
        config["understudy.serve.token_file"] = str(token_file)
    script = [call("shell", command=["sh", "-c", steal]), say("done")]
    async with ScriptedModel(script) as model, HttpServer(tmp_path, model, args=flags, config=config) as server:
        token = token_file.read_text().strip()
        client = HttpClient(server.port, token)
        await client.initialize()
        await client.result("codex", {"prompt": "try", "cwd": str(server.cwd)})
        assert token not in str(model.received[-1].body["messages"])
        assert token_file.read_text().strip() == token
        assert not (server.cwd / "mine").exists() or token not in (server.cwd / "mine").read_text()


@pytest.mark.quick(1)
@pytest.mark.parametrize("flags", [("--host", "0.0.0.0"), ("--host", "0.0.0.0", "--no-auth"), ("--tls-cert", "x.pem")])
async def test_an_open_door_is_refused_at_the_start(tmp_path: Path, flags: tuple[str, ...]) -> None:
    server = HttpServer(tmp_path, None, args=flags)
    with pytest.raises(AssertionError, match="did not start"):
        await server.start()
    assert await asyncio.wait_for(server.process.wait(), WAIT_SECONDS) == 1
    assert "understudy: " in server.stderr
    assert "Traceback" not in server.stderr


@pytest.mark.slow
async def test_beyond_this_machine_it_warns_without_tls_once_there_is_a_token(tmp_path: Path) -> None:
    server = HttpServer(tmp_path, None, args=("--host", "0.0.0.0"))
    state = server.home.path / "understudy"
    state.mkdir()
    (state / "token").write_text("us_" + "t" * 40)
    os.chmod(state / "token", 0o600)
    async with server:
        client = HttpClient(server.port, server.token)
        await client.initialize()
        assert (await client.post("ping", Host="evil.example")).status == 421
        assert (await client.post("ping", Host="192.0.2.1:8722")).status == 200
    assert "WITHOUT TLS" in server.stderr


@pytest.mark.slow
async def test_a_stranger_who_goes_on_sending_what_was_refused_is_let_go(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        stranger = HttpClient(client.port, None)
        reader, writer = await asyncio.open_connection("127.0.0.1", stranger.port)
        writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n{"
        )
        assert b" 401 " in await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
        ended = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(WAIT_SECONDS):
            while not ended.done():
                writer.write(b" ")
                await asyncio.wait([ended], timeout=0.2)
        assert ended.exception() is None or isinstance(ended.exception(), ConnectionError)
        writer.transport.abort()
        # one connection serves many requests all the same
        reader, writer = await asyncio.open_connection("127.0.0.1", stranger.port)
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
            await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), WAIT_SECONDS)
        writer.transport.abort()
        await asyncio.sleep(0)
