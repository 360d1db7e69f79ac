"""An MCP server over HTTP that asks for a login, and its authorization server: discovery, registration, codes, renewal."""

import json
import secrets
import threading
from base64 import urlsafe_b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


class OAuthServer:
    def __init__(self, *, open_door: bool = False) -> None:
        self.open_door = open_door  # no login is asked for
        self.access: set[str] = set()
        self.refresh: set[str] = set()
        self.codes: dict[str, str] = {}  # with the challenge of each
        self.refused: str | None = None  # an error that the person's browser comes back with
        self.wrong_state = False
        self.moved = False  # to another address
        self.renewed = 0
        self.clients: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any, **__: Any) -> None:
                pass

            def do_GET(self) -> None:
                server.get(self, urlsplit(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.post(self, urlsplit(self.path).path, body)

            def do_DELETE(self) -> None:
                server.answer(self, 200, {})

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever)

    def __enter__(self) -> "OAuthServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, to: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> None:
        data = json.dumps(body).encode()
        to.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(data)

    def get(self, to: BaseHTTPRequestHandler, asked: Any) -> None:
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(
                to, 200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base], "scopes_supported": ["tools"]}
            )
        elif asked.path == "/.well-known/oauth-authorization-server":
            self.answer(to, 200, {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/let-me-in",
                "token_endpoint": f"{self.base}/give-me-tokens",
                "registration_endpoint": f"{self.base}/here-i-am",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })  # fmt: skip
        elif asked.path == "/let-me-in":
            assert query["code_challenge_method"] == "S256"
            code = secrets.token_urlsafe(8)
            self.codes[code] = query["code_challenge"]
            state = "another" if self.wrong_state else query["state"]
            back = {"error": self.refused, "error_description": "No \x1b[31mway"} if self.refused else {"code": code}
            self.answer(to, 302, {}, Location=f"{query['redirect_uri']}?{urlencode({**back, 'state': state})}")
        else:
            self.answer(to, 405 if asked.path == "/mcp" else 404, {})

    def post(self, to: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if path == "/here-i-am":
            client = {**json.loads(body), "client_id": f"client-{len(self.clients)}"}
            self.clients.append(client)
            self.answer(to, 201, client)
        elif path == "/give-me-tokens":
            self._give_tokens(to, {name: values[0] for name, values in parse_qs(body.decode()).items()})
        elif self.moved:
            self.answer(to, 307, {}, Location=f"{self.base}/mcp")
        elif path == "/mcp":
            self._serve(to, json.loads(body))
        else:
            self.answer(to, 404, {})

    def _give_tokens(self, to: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        if form["grant_type"] == "refresh_token":
            good = form["refresh_token"] in self.refresh
            self.refresh.discard(form["refresh_token"])
            self.renewed += good
        else:
            challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            good = self.codes.pop(form["code"], None) == challenge
        if not good:
            self.answer(to, 400, {"error": "invalid_grant"})
            return
        access, refresh = f"at-{secrets.token_urlsafe(16)}", f"rt-{secrets.token_urlsafe(16)}"
        self.access.add(access)
        self.refresh.add(refresh)
        self.answer(to, 200, {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600})

    def _serve(self, to: BaseHTTPRequestHandler, message: Any) -> None:
        given = (to.headers.get("authorization") or "").removeprefix("Bearer ")
        if not self.open_door and given not in self.access:
            where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            self.answer(to, 401, {"error": "invalid_token"}, **{"WWW-Authenticate": where})
            return
        if "id" not in message:
            self.answer(to, 202, {})
            return
        tool: dict[str, Any] = {"name": "ok", "description": "Says ok.", "inputSchema": {"type": "object", "properties": {}}}
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": message.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
        }
        self.answer(to, 200, {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})})
