"""Logs in to MCP servers by OAuth 2.1: runs the SDK's flow, keeps the tokens in a file, and renews them when needed.

Only `understudy mcp login` asks a person. Elsewhere, a server that wants a new login counts as failed to start.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from understudy.config.mcp_credentials import McpCredentials, read_credentials, write_credentials

AskPerson = Callable[[str], Awaitable[None]]  # to open this address
Answered = Callable[[], Awaitable[AuthorizationCodeResult]]


class LoginNeeded(Exception):
    """The tokens are no longer accepted, and there is nobody to ask."""


class Kept:
    """Tokens and client of one address, in memory and in the file."""

    def __init__(self, state_dir: Path, url: str) -> None:
        self._state_dir = state_dir
        self._url = url
        self.found: McpCredentials | None = None
        self.provider: StoredLogin | None = None
        self._client: OAuthClientInformationFull | None = None

    def read(self) -> bool:
        self.found = read_credentials(self._state_dir, self._url)
        return self.found is not None

    def use_client(self, client: OAuthClientInformationFull) -> None:
        """Use a client that is already registered with the authorization server."""
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return None if self.found is None else OAuthToken.model_validate(dict(self.found.tokens))
        except ValidationError:
            return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._client is not None or self.found is None:
            return self._client
        try:
            return OAuthClientInformationFull.model_validate(dict(self.found.client))
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = None if self.provider is None else self.provider.context
        client = self._client or (None if context is None else context.client_info)
        metadata = None if context is None else context.oauth_metadata
        self.found = McpCredentials(
            tokens.model_dump(mode="json", exclude_none=True),
            {} if client is None else client.model_dump(mode="json", exclude_none=True),
            None if metadata is None else metadata.model_dump(mode="json", exclude_none=True),
            None if context is None else context.auth_server_url,
            None if tokens.expires_in is None else time.time() + tokens.expires_in,
        )
        write_credentials(self._state_dir, self._url, self.found)


class StoredLogin(OAuthClientProvider):
    """Also stores when tokens expire and where to renew them, which the SDK keeps only in memory, so that other processes can go
    on."""

    def __init__(
        self, url: str, kept: Kept, *, redirect: str, ask: AskPerson, answered: Answered, name: str = "Understudy"
    ) -> None:
        metadata = OAuthClientMetadata(
            client_name=name,
            redirect_uris=[AnyUrl(redirect)],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",
        )
        super().__init__(url, metadata, kept, ask, answered)
        self._kept = kept
        kept.provider = self

    async def _initialize(self) -> None:
        await super()._initialize()
        found = self._kept.found
        if found is None:
            return
        self.context.token_expiry_time = found.expires_at
        self.context.auth_server_url = found.server
        try:
            self.context.oauth_metadata = None if found.metadata is None else OAuthMetadata.model_validate(dict(found.metadata))
        except ValidationError:
            self.context.oauth_metadata = None

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        """If another process has renewed the tokens meanwhile, take its tokens, because ours have become useless."""
        mine = self.context.current_tokens
        if await super()._handle_refresh_response(response):
            return True
        self._kept.read()
        tokens = await self._kept.get_tokens()
        if tokens is None or mine is None or tokens.access_token == mine.access_token:
            return False
        await self._initialize()
        return self.context.is_token_valid()


def stored_login(state_dir: Path, url: str) -> StoredLogin | None:
    """For a conversation; None if nobody has logged in. Raises `ConfigError`."""
    kept = Kept(state_dir, url)
    if not kept.read():
        return None

    async def ask(_: str) -> None:
        raise LoginNeeded

    async def answered() -> AuthorizationCodeResult:
        raise LoginNeeded

    return StoredLogin(url, kept, redirect="http://127.0.0.1/callback", ask=ask, answered=answered)
