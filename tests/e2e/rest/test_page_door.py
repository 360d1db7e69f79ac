"""The page's files and the login: links that work once, cookies that end with their token, and nothing for strangers' pages."""

from pathlib import Path

import pytest

from tests.support.http_server import HttpClient, HttpServer
from tests.support.rest_client import RestClient, log_in, printed_link, serving_rest


async def test_the_page_is_served_to_anyone_with_headers_that_keep_everything_foreign_out(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        nobody = RestClient(server.port)
        for path in ("/", "/login", "/page/app/login.js"):
            response = await nobody.request("GET", path)
            assert response.status == 200
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            for rule in ("frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"):
                assert rule in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "no-referrer"
            assert response.headers["x-frame-options"] == "DENY"
            assert "set-cookie" not in response.headers
            again = await nobody.request("GET", path, headers={"If-None-Match": response.headers["etag"]})
            assert again.status == 304
        assert (await nobody.request("POST", "/page/app/login.js", {})).status == 405


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "path",
    [
        "/page/../door.py",
        "/page/..%2fdoor.py",
        "/page/%2e%2e/door.py",
        "/page//etc/passwd",
        "/page/static/index.html",
        "/page/",
        "/page",
        "/page/index.html/",
        "/page/index.html%00.js",
        "/page/..\\door.py",
        "/static/index.html",
    ],
)
async def test_nothing_but_the_page_s_own_files_can_be_reached(tmp_path: Path, path: str) -> None:
    async with HttpServer(tmp_path) as server:
        assert (await RestClient(server.port).request("GET", path)).status == 404


@pytest.mark.slow
async def test_a_link_works_once_and_fetching_it_does_not_use_it(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        code = await printed_link(server)
        robot = RestClient(server.port)
        for method in ("GET", "HEAD", "GET"):
            response = await robot.request(method, f"/login?code={code}")
            assert response.status == 200
            assert "set-cookie" not in response.headers
        browser = await log_in(server)
        assert (await browser.get("/v1/me"))["name"] == "local"
        again = await robot.request("POST", "/login", {"code": code}, {"Origin": robot.origin})
        assert again.status == 401
        assert "understudy open" in (await again.json())["error"]["message"]
        await server.stop()
        await server.start()
        response = await robot.request("POST", "/login", {"code": code}, {"Origin": robot.origin})
        assert response.status == 401  # also after a restart
        assert (await browser.get("/v1/me"))["name"] == "local"  # and the cookie survives it


async def test_the_cookie_cannot_be_read_by_scripts_or_sent_from_other_sites(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        client = RestClient(server.port)
        response = await client.request("POST", "/login", {"code": await printed_link(server)}, {"Origin": client.origin})
        attributes = response.headers["set-cookie"].split("; ")
        assert attributes[0].startswith(f"understudy-{server.port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
        assert server.token not in response.headers["set-cookie"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("wrong", ["", "A", "A" * 60, "A" * 5000, "ÄÖ", "{code}A", "a{code}"])
async def test_a_code_that_was_made_up_logs_nobody_in(tmp_path: Path, wrong: str) -> None:
    async with HttpServer(tmp_path) as server:
        code = wrong.replace("{code}", await printed_link(server))
        client = RestClient(server.port)
        response = await client.request("POST", "/login", {"code": code}, {"Origin": client.origin})
        assert response.status in (401, 413)
        assert "set-cookie" not in response.headers


async def test_logging_in_needs_our_own_origin(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        client = RestClient(server.port)
        body = {"code": await printed_link(server)}
        for origin in (None, "null", "http://evil.example", f"http://localhost:{server.port + 1}", "http://127.0.0.1"):
            assert (await client.request("POST", "/login", body, {"Origin": origin})).status == 403
        assert (await client.request("POST", "/login", body, {"Origin": client.origin, "Content-Type": "text/plain"})).status == 415
        assert (await client.request("POST", "/login", body | {"x": 1}, {"Origin": client.origin})).status == 400
        await log_in(server)  # none of that has used it


@pytest.mark.slow
async def test_a_logged_out_cookie_is_over_for_good(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        browser = await log_in(server)
        assert (await browser.request("GET", "/logout")).status == 405
        assert (await browser.request("POST", "/logout", headers={"Origin": "http://evil.example"})).status == 403
        await browser.get("/v1/me")
        gone = await browser.request("POST", "/logout")
        assert gone.status == 204
        assert "Max-Age=0" in gone.headers["set-cookie"]
        assert await browser.status("GET", "/v1/me") == (401, "unauthorized")
        await server.stop()
        await server.start()
        assert await browser.status("GET", "/v1/me") == (401, "unauthorized")


@pytest.mark.slow
async def test_a_cookie_ends_with_the_token_it_stands_for(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, _):
        token = await server.add_token("ann")
        client = RestClient(server.port)
        response = await client.request("POST", "/login", {"token": token}, {"Origin": client.origin})
        assert response.status == 204
        ann = RestClient(server.port, cookie=response.headers["set-cookie"].partition(";")[0])
        assert (await ann.get("/v1/me"))["name"] == "ann"
        await server.revoke_token("ann")
        await server.until_status(HttpClient(server.port, token), 401)
        assert await ann.status("GET", "/v1/me") == (401, "unauthorized")
        again = await server.add_token("ann")  # somebody else of the same name
        assert again != token
        assert await ann.status("GET", "/v1/me") == (401, "unauthorized")


FOREIGN: list[dict[str, str | None]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": None},
    {"Origin": None, "Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.quick(1)
@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_stranger_s_page_cannot_make_a_request_that_counts(tmp_path: Path, headers: dict[str, str | None]) -> None:
    """The browser would send the cookie along, if it were not for SameSite; we do not rely on that."""
    async with HttpServer(tmp_path) as server:
        browser = await log_in(server)
        response = await browser.request("POST", "/v1/conversations", {"folder": str(tmp_path)}, headers)
        assert response.status == 403
        assert (await browser.get("/v1/conversations"))["conversations"] == []


async def test_a_stranger_s_page_reads_nothing_by_the_cookie(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        browser = await log_in(server)
        for headers in ({"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            response = await browser.request("GET", "/v1/conversations", headers=headers)
            assert response.status == 403
            assert "access-control-allow-origin" not in response.headers
        assert (await browser.request("GET", "/v1/conversations", headers={"Host": "evil.example"})).status == 421


async def test_the_cookie_opens_nothing_of_mcp(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        browser = await log_in(server)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await browser.request("POST", "/mcp", message)).status == 401
        assert (await browser.request("GET", "/v1/me", headers={"Authorization": "Bearer wrong"})).status == 401


@pytest.mark.slow
async def test_without_tokens_pages_of_other_sites_are_kept_out_all_the_same(tmp_path: Path) -> None:
    async with HttpServer(tmp_path, args=("--no-auth",)) as server:
        client = RestClient(server.port)
        assert (await client.get("/v1/me"))["name"] == "local"
        assert (await client.request("GET", "/v1/me", headers={"Sec-Fetch-Site": "cross-site"})).status == 403
        assert (await client.request("GET", "/metrics")).status == 200
        for path in ("/v1/me", "/metrics"):  # by a name that was pointed at this machine
            assert (await client.request("GET", path, headers={"Host": f"evil.example:{server.port}"})).status == 421
        for origin in ("http://evil.example", "http://localhost:3000"):
            response = await client.request("POST", "/v1/conversations", {"folder": str(tmp_path)}, {"Origin": origin})
            assert response.status == 403
