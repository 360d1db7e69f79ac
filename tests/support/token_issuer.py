"""An issuer of tokens for tests: metadata, keys, and the authorization code flow with PKCE and registration of clients."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from base64 import urlsafe_b64encode
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

SCOPES = "understudy:run understudy:approve understudy:read"


class TokenIssuer:
    """`audience` is what tokens are for unless a test says otherwise."""

    def __init__(self) -> None:
        self.keys: dict[str, RSAKey | ECKey | OctKey] = {"one": RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})}
        self.audience = ""
        self.subject = "carol"
        self.asked: list[str] = []  # paths
        self.answers = True  # False: as if it were down
        self._codes: dict[str, dict[str, str]] = {}
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def token(self, key: str = "one", *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A good one, but for the claims that are given; None leaves one out."""
        good = {
            "iss": self.url,
            "aud": self.audience,
            "sub": "alice",
            "exp": int(time.time()) + 600,
            "iat": int(time.time()),
            "scope": SCOPES,
        }
        payload = {name: value for name, value in {**good, **claims}.items() if value is not None}
        head = {"alg": _algorithm(self.keys[key]), "kid": key, "typ": "at+jwt", **(header or {})}
        return jwt.encode(
            {name: value for name, value in head.items() if value is not None}, payload, self.keys[key], algorithms=ALL
        )

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = head[0].split(" ")
                self.asked.append(urlsplit(path).path)
                down: tuple[int, str, Any] = (503, "", None)
                status, more, answer = self._answer(method, path, body.decode()) if self.answers else down
                data = json.dumps(answer).encode()
                said = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{more}\r\n"
                writer.write(said.encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str, path: str, body: str) -> tuple[int, str, Any]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        match urlsplit(path).path:
            case "/.well-known/oauth-authorization-server":
                return 200, "", self._metadata()
            case "/keys":
                public = [key.as_dict(private=isinstance(key, OctKey)) for key in self.keys.values()]
                return 200, "", {"keys": public}
            case "/register":
                asked = json.loads(body)
                return 201, "", {**asked, "client_id": "registered", "token_endpoint_auth_method": "none"}
            case "/authorize":
                code = secrets.token_hex(8)
                self._codes[code] = query
                place = query["redirect_uri"] + "?" + urlencode({"code": code, "state": query["state"], "iss": self.url})
                return 302, f"location: {place}\r\n", {}
            case "/token":
                form = {name: values[0] for name, values in parse_qs(body).items()}
                known = self._codes.pop(form["code"])
                proof = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
                assert proof == known["code_challenge"]
                token = self.token(sub=self.subject, aud=known["resource"], scope=known["scope"])
                return 200, "", {"access_token": token, "token_type": "Bearer", "expires_in": 600, "scope": known["scope"]}
            case _:
                return 404, "", {}

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code"],
            "token_endpoint_auth_methods_supported": ["none"],
        }


ALL = ["RS256", "ES256", "HS256", "none"]


def _algorithm(key: RSAKey | ECKey | OctKey) -> str:
    return {"RSA": "RS256", "EC": "ES256", "oct": "HS256"}[key.key_type]
