"""Tokens of an issuer (JWT) on the real server: which are accepted, what they allow, and how clients learn where to get one."""

import asyncio
import json
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.support.http_server import HttpClient, HttpServer, Response
from tests.support.rest_client import RestClient
from tests.support.token_issuer import SCOPES, TokenIssuer
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

Issued = tuple[TokenIssuer, HttpServer]
CONTAINED = {"sandbox_mode": "read-only"}


@asynccontextmanager
async def issued(tmp_path: Path, model: ScriptedModel | None = None, audience: str = "", **serve: Any) -> AsyncGenerator[Issued]:
    async with TokenIssuer() as issuer:
        config = {"understudy.serve.issuer": issuer.url, "understudy.serve.audience": audience, **CONTAINED}
        config |= {f"understudy.serve.{name}": value for name, value in serve.items()}
        async with HttpServer(tmp_path, model, config=config) as server:
            issuer.audience = server.url
            yield issuer, server


async def status(server: HttpServer, token: str) -> int:
    """400: it may come in, and lacks a session."""
    return (await HttpClient(server.port, token).request("DELETE")).status


async def test_a_signed_token_is_its_subject_with_the_rights_of_its_scopes(tmp_path: Path) -> None:
    async with ScriptedModel([say("hello alice")]) as model, issued(tmp_path, model) as (issuer, server):
        alice, bob = HttpClient(server.port, issuer.token()), HttpClient(server.port, issuer.token(sub="bob"))
        reader = HttpClient(server.port, issuer.token(sub="rita", scope="understudy:read other"))
        auditor = HttpClient(server.port, issuer.token(sub="audra", scope=None, scp=["understudy:others:read"]))
        local = HttpClient(server.port, server.token)
        for client in (alice, bob, reader, auditor, local):
            await client.initialize()
        made = await alice.result("codex", {"prompt": "hi"})
        assert made["structuredContent"]["content"] == "hello alice"
        thread = made["structuredContent"]["threadId"]

        async def seen(client: HttpClient) -> list[str]:
            rows = (await client.result("conversationsList", {}))["structuredContent"]["conversations"]
            return [row["conversation_id"] for row in rows]

        assert [await seen(client) for client in (alice, bob, reader, auditor, local)] == [[thread], [], [], [thread], [thread]]
        assert (await bob.result("codex-reply", {"threadId": thread, "prompt": "x"}))["isError"] is True
        assert (await reader.call("codex", {"prompt": "x"})).status == 403
        assert "token" in str(await alice.result("codex", {"prompt": "x", "sandbox": "danger-full-access"}))
        # a session of hers is not for others, and goes on with the next token of hers
        stolen = HttpClient(server.port, bob.token)
        stolen.session = alice.session
        assert (await stolen.post("ping")).status == 404
        alice.token = issuer.token(exp=int(time.time()) + 1200)
        assert (await alice.post("ping")).status == 200


def bad_tokens(issuer: TokenIssuer) -> dict[str, str]:
    now = int(time.time())
    good = issuer.token()
    head, body, signature = good.split(".")

    def plain(value: Any) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    other = RSAKey.generate_key(2048, {"kid": "one"})
    public = json.dumps(issuer.keys["one"].as_dict(private=False)).encode()
    issuer.keys |= {"foreign": other, "shared": OctKey.import_key(public)}
    found = {
        "expired": issuer.token(exp=now - 120),
        "without an end": issuer.token(exp=None),
        "an end that is no time": issuer.token(exp="tomorrow"),
        "not valid yet": issuer.token(nbf=now + 600),
        "made in the future": issuer.token(iat=now + 600),
        "for another server": issuer.token(aud="http://127.0.0.1:1/mcp"),
        "for nobody": issuer.token(aud=None),
        "for a part of us": issuer.token(aud=issuer.audience[:-1]),
        "of another issuer": issuer.token(iss="http://127.0.0.1:1"),
        "without a subject": issuer.token(sub=None),
        "subject is the local user": issuer.token(sub="local"),
        "subject has control characters": issuer.token(sub="a\nb"),
        "subject is empty": issuer.token(sub=""),
        "another kind": issuer.token(header={"typ": "logout+jwt"}),
        "signed by somebody else": issuer.token("foreign", header={"kid": "one"}),
        "signed with the public key as a secret": issuer.token("shared", header={"kid": "one", "alg": "HS256"}),
        "not signed": f"{plain({'alg': 'none', 'kid': 'one'})}.{body}.",
        "by an algorithm for other keys": f"{plain({'alg': 'EdDSA', 'kid': 'one'})}.{body}.{signature}",
        "body changed": f"{head}.{plain({**json.loads(_decoded(body)), 'sub': 'mallory'})}.{signature}",
        "signature cut": f"{head}.{body}.{signature[:-4]}",
        "a key that is not known": issuer.token(header={"kid": "nobody"}),
        "head changed": f"{head}x.{body}.{signature}",
        "nonsense": "a.b.c",
        "empty parts": "..",
        "very long": "a." + "b" * 20_000 + ".c",
    }
    del issuer.keys["foreign"]
    return found


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


async def test_every_other_token_is_refused_with_where_to_get_one(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        assert await status(server, issuer.token()) == 400
        for name, token in bad_tokens(issuer).items():
            refused = await HttpClient(server.port, token).request("DELETE")
            assert refused.status == 401, name
            told = refused.headers["www-authenticate"]
            assert told.startswith('Bearer error="invalid_token", resource_metadata="http://127.0.0.1:'), name
        assert await status(server, issuer.token()) == 400
        without = await HttpClient(server.port, None).request("DELETE")
        place = f"http://127.0.0.1:{server.port}/.well-known/oauth-protected-resource/mcp"
        scope = "understudy:run understudy:approve understudy:read"
        assert without.headers["www-authenticate"] == f'Bearer resource_metadata="{place}", scope="{scope}"'
        assert await server.stop() == 0
        assert "Warning" not in server.stderr


async def test_a_valid_token_that_allows_nothing_is_told_which_scopes_it_lacks(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        for scope in (None, "", "openid profile", "understudy:", 7):
            refused = await HttpClient(server.port, issuer.token(scope=scope)).request("DELETE")
            assert refused.status == 403, scope
            assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
            assert "understudy:run" in refused.headers["www-authenticate"]


def scopes_wanted(response: Response) -> str:
    """That a client is told to ask its issuer for."""
    assert response.status == 403
    found = re.fullmatch(
        r'Bearer error="insufficient_scope", resource_metadata="[^"]+/mcp", scope="([^"]*)"', challenge_in(response)
    )
    assert found is not None, challenge_in(response)
    return found[1]


def challenge_in(response: Response) -> str:
    return response.headers.get("www-authenticate", "")


@pytest.mark.slow
async def test_whoever_lacks_one_scope_is_told_which_at_every_door(tmp_path: Path) -> None:
    async with ScriptedModel([say("hello")]) as model, issued(tmp_path, model) as (issuer, server):
        alice = RestClient(server.port, issuer.token())
        thread = (await alice.create(server.cwd, "hi"))["id"]
        await model.next_request(1)
        reader = HttpClient(server.port, issuer.token(scope="understudy:read understudy:others:read"))
        await reader.initialize()
        more = "understudy:run understudy:read understudy:others:read"
        assert scopes_wanted(await reader.call("codex", {"prompt": "x"})) == more
        assert scopes_wanted(await reader.call("codex-reply", {"threadId": thread, "prompt": "x"})) == more
        modern = await reader.modern("tools/call", {"name": "conversationDelete", "arguments": {"conversation_id": thread}})
        assert scopes_wanted(modern) == more
        said = (await modern.json())["error"]
        assert said["message"] == "the token lacks the scope understudy:run"
        task: dict[str, Any] = {"taskId": "x", "inputResponses": {}}
        assert scopes_wanted(await reader.modern("tasks/update", task)) == more.replace("understudy:run", "understudy:approve")
        rest = RestClient(server.port, reader.token)
        assert scopes_wanted(await rest.request("POST", f"/v1/conversations/{thread}/archive")) == more
        assert scopes_wanted(await rest.request("POST", "/v1/conversations", {"folder": str(server.cwd)})) == more
        bob = RestClient(server.port, issuer.token(sub="bob", scope="understudy:run understudy:others:read"))
        theirs = await bob.request("POST", f"/v1/conversations/{thread}/archive")
        assert scopes_wanted(theirs) == "understudy:run understudy:others:run understudy:others:read"
        # what they may, they may; and a token of the server's own is told nothing of scopes
        assert (await reader.result("codex-reply", {"threadId": thread}))["structuredContent"]["content"] == "hello"
        named = RestClient(server.port, await server.add_token("carol", "--rights", "read", "--others", "read"))
        refused = await named.request("POST", f"/v1/conversations/{thread}/archive")
        assert (refused.status, challenge_in(refused)) == (403, "")
        carol = HttpClient(server.port, await server.add_token("dora", "--rights", "read"))
        await carol.initialize()
        assert "right to run" in str(await carol.result("codex", {"prompt": "x"}))


@pytest.mark.slow
async def test_whoever_cannot_read_what_they_would_begin_begins_nothing(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        blind = HttpClient(server.port, issuer.token(sub="blind", scope="understudy:run"))
        await blind.initialize()
        assert scopes_wanted(await blind.call("codex", {"prompt": "x"})) == "understudy:run understudy:read"
        named = HttpClient(server.port, await server.add_token("dark", "--rights", "run,approve"))
        await named.initialize()
        assert "right to read" in str(await named.result("codex", {"prompt": "x"}))
        assert (await RestClient(server.port, server.token).get("/v1/conversations"))["conversations"] == []


@pytest.mark.slow
async def test_an_answer_with_a_token_that_may_not_approve_any_more_does_not_count(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"])]
    asking = {"understudy.unasked": "wait", "approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
    async with TokenIssuer() as issuer, ScriptedModel(script) as model:
        config = {"understudy.serve.issuer": issuer.url, **asking}
        async with HttpServer(tmp_path, model, config=config) as server:
            issuer.audience = server.url
            alice = HttpClient(server.port, issuer.token())
            await alice.initialize()
            response = await alice.call("codex", {"prompt": "make it"})
            question = ""
            async for event in response.events():
                if event.get("data") and event["data"].get("method") == "elicitation/create":
                    question = event["data"]["id"]
                    break
            alice.token = issuer.token(scope="understudy:run understudy:read")
            assert (await alice.send({"jsonrpc": "2.0", "id": question, "result": {"action": "accept"}})).status == 202
            rest = RestClient(server.port, server.token)
            [row] = (await rest.get("/v1/conversations"))["conversations"]
            assert row["state"] == "waiting"
            assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_folders_and_sandboxes_are_those_of_the_subject_or_of_its_groups(tmp_path: Path) -> None:
    work, play = tmp_path / "projects", tmp_path / "playground"
    for folder in (work, play):
        folder.mkdir()
    given: dict[str, Any] = {
        "groups.developers.roots": [str(work)],
        "groups.interns.roots": [str(play)],
        "groups.interns.sandbox": ["read-only"],
        "groups.everywhere.sandbox": ["read-only"],
        "subjects.alice.sandbox": ["danger-full-access", "read-only"],
    }
    plain = ["read-only", "workspace-write"]
    async with issued(tmp_path, **given) as (issuer, server):

        async def choices(**claims: Any) -> tuple[Any, Any]:
            told = await RestClient(server.port, issuer.token(**claims)).get("/v1/me")
            return told["roots"], told["sandbox_modes"]

        assert await choices(sub="bob") == (None, plain)
        assert await choices(sub="bob", groups=["strangers", 7, None]) == (None, plain)
        assert await choices(sub="bob", groups={"developers": True}) == (None, plain)
        assert await choices(sub="bob", groups=["developers"]) == ([str(work)], plain)
        assert await choices(sub="bob", groups="interns") == ([str(play)], ["read-only"])
        assert await choices(sub="bob", groups=["interns", "developers"]) == ([str(play), str(work)], plain)
        assert await choices(sub="bob", groups=["everywhere", "developers"]) == (None, plain)
        assert await choices(sub="alice", groups=["interns"]) == (None, ["read-only", "danger-full-access"])
        intern = RestClient(server.port, issuer.token(sub="ina", groups=["interns"]))
        assert (await intern.create(play))["folder"] == str(play)
        assert await intern.status("POST", "/v1/conversations", {"folder": str(work)}) == (403, "forbidden")
        other_mode = {"folder": str(play), "sandbox": "workspace-write"}
        assert await intern.status("POST", "/v1/conversations", other_mode) == (403, "forbidden")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("groups.x.roots", ["relative"], "absolute"),
        ("subjects.x.sandbox", ["none"], "read-only"),
        ("groups.x.sanbox", ["read-only"], "sanbox"),
        ("trusted_proxies", ["nobody"], "10.0.0.0/8"),
    ],
)
async def test_what_is_wrong_with_who_may_choose_what_is_told_at_the_start(
    tmp_path: Path, key: str, value: list[str], said: str
) -> None:
    server = HttpServer(tmp_path, config={f"understudy.serve.{key}": value})
    with pytest.raises(AssertionError, match=said):
        await server.start()
    await server.stop()


async def test_metadata_is_told_to_everybody(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        stranger = HttpClient(server.port, None)
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            response = await stranger.request("GET", path=path)
            assert response.status == 200
            told = await response.json()
            assert (told["resource"], told["authorization_servers"]) == (server.url, [issuer.url])
            assert told["bearer_methods_supported"] == ["header"]
            assert set(SCOPES.split()) <= set(told["scopes_supported"])
        assert (await stranger.request("POST", path="/.well-known/oauth-protected-resource")).status == 405


@pytest.mark.slow
async def test_a_new_key_is_fetched_once_and_guessed_ones_make_no_storm(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        assert issuer.asked == []
        assert await asyncio.gather(*(status(server, issuer.token(sub=f"u{number}")) for number in range(10))) == [400] * 10
        assert issuer.asked.count("/keys") == 1
        for number in range(20):
            assert await status(server, issuer.token(header={"kid": f"guess{number}"})) == 401
        assert issuer.asked.count("/keys") <= 2
        # a new key comes, the old one goes: known as soon as it may be asked for again
        issuer.keys = {"two": ECKey.generate_key("P-256", {"kid": "two"})}
        async with asyncio.timeout(WAIT_SECONDS + 15):
            while await status(server, issuer.token("two")) != 400:  # noqa: ASYNC110
                await asyncio.sleep(0.5)


@pytest.mark.slow
async def test_an_issuer_that_is_down_keeps_nobody_out_whose_key_is_known(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        issuer.answers = False
        assert await status(server, issuer.token()) == 401
        assert await status(server, server.token) == 400, "tokens of our own need no issuer"
        issuer.answers = True
        async with asyncio.timeout(WAIT_SECONDS + 15):
            while await status(server, issuer.token()) != 400:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        issuer.answers = False
        assert await status(server, issuer.token(sub="dora")) == 400


@pytest.mark.slow
async def test_a_stream_ends_with_the_token_it_was_opened_with(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, issued(tmp_path, model) as (issuer, server):
        alice = HttpClient(server.port, issuer.token(exp=int(time.time()) - 15))  # within what clocks may differ, for 15 seconds
        await alice.initialize()
        running = await alice.call("codex", {"prompt": "x"})
        await model.next_request(1)
        async with asyncio.timeout(WAIT_SECONDS + 15):
            shown = [event["data"] async for event in running.events() if event.get("data")]
        assert "result" not in shown[-1]
        assert (await alice.post("ping")).status == 401
        model.release()


@pytest.mark.slow
async def test_a_cookie_has_no_other_rights_than_its_token_and_does_not_outlive_it(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):

        async def log_in(token: str) -> RestClient:
            client = RestClient(server.port)
            response = await client.request("POST", "/login", {"token": token}, {"Origin": client.origin})
            assert response.status == 204
            return RestClient(server.port, cookie=response.headers["set-cookie"].partition(";")[0])

        reader = await log_in(issuer.token(scope="understudy:read"))
        assert (await reader.get("/v1/me"))["rights"] == ["read"]
        client = RestClient(server.port)
        short = await client.request("POST", "/login", {"token": f" {issuer.token()} "}, {"Origin": client.origin})
        age = re.search(r"Max-Age=(\d+)", short.headers["set-cookie"])
        assert age is not None
        assert 0 < int(age[1]) <= 630  # ten minutes, and half a one by which clocks may differ
        assert await status(server, issuer.token()) == 400  # the same person, with more rights and for longer
        assert await reader.status("GET", "/v1/me") == (401, "unauthorized")


@pytest.mark.slow
async def test_a_subject_cannot_be_somebody_who_has_a_token_of_this_server(tmp_path: Path) -> None:
    async with issued(tmp_path) as (issuer, server):
        assert await status(server, issuer.token()) == 400
        named = await server.add_token("alice")
        assert await status(server, issuer.token()) == 401
        assert await status(server, named) == 400


@pytest.mark.slow
async def test_an_audience_of_ones_own_holds_in_place_of_the_address(tmp_path: Path) -> None:
    async with issued(tmp_path, audience="api://agents") as (issuer, server):
        assert await status(server, issuer.token(aud=["x", "api://agents"])) == 400
        assert await status(server, issuer.token()) == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    ("issuer", "said"), [("http://login.example.org", "https"), ("login", "an address such as"), ("ftp://x", "an address such as")]
)
async def test_an_issuer_that_others_could_play_is_refused_at_the_start(tmp_path: Path, issuer: str, said: str) -> None:
    server = HttpServer(tmp_path, config={"understudy.serve.issuer": issuer})
    with pytest.raises(AssertionError, match=said):
        await server.start()
    await server.stop()


class _Storage:
    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.slow
async def test_the_official_client_finds_its_way_from_the_refusal_to_a_token(tmp_path: Path) -> None:
    """401, our metadata, the issuer's, registration, a code with PKCE, a token for our address: all by the SDK itself."""
    came_back: asyncio.Queue[AuthorizationCodeResult] = asyncio.Queue()

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            place = httpx2.URL((await browser.get(url)).headers["location"])
        code, state, iss = (place.params[name] for name in ("code", "state", "iss"))
        came_back.put_nowait(AuthorizationCodeResult(code=code, state=state, iss=iss))

    async with ScriptedModel([say("hello carol")]) as model, issued(tmp_path, model) as (_, server):
        wanted = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1:9/back")], client_name="test")
        provider = OAuthClientProvider(server.url, wanted, _Storage(), visit, came_back.get)
        async with (
            httpx2.AsyncClient(auth=provider, timeout=WAIT_SECONDS) as http,
            Client(streamable_http_client(server.url, http_client=http), mode="legacy") as client,
        ):
            result = await client.call_tool("codex", {"prompt": "hi"})
            assert (result.structured_content or {})["content"] == "hello carol"
        local = HttpClient(server.port, server.token)
        await local.initialize()
        rows = (await local.result("conversationsList", {}))["structuredContent"]["conversations"]
        assert len(rows) == 1
