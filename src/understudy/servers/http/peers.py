"""The user at the other end of a Unix socket: the kernel tells who it is, so that they need no token.

The server's own user is the local user, as at a terminal. `understudy.serve.users` lists others: each has the rights of a named
token without sending it. Nobody is identified in this way if somebody else may speak through the connected process:

- a browser, recognised by the headers that browsers send: any page could make it call us through a forwarded port;
- a proxy, recognised by its headers, or because `public_url` says that there is one;
- a command in a sandbox of ours, which is the same user in a PID namespace of its own.
"""

import os
from collections.abc import Mapping

from understudy.config.serve import ServeSettings
from understudy.protocol.callers import LOCAL_NAME
from understudy.servers.http.answers import Refusal
from understudy.servers.http.asked import Asked
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.unix_sockets import SocketPeer

PEER = "peer"  # the key for it in the state of a request
_BROWSERS = (b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"cookie")
_PROXIES = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")


class SocketUsers:
    """What the users of this machine may do through the socket."""

    def __init__(self, settings: ServeSettings, principals: Principals) -> None:
        self._principals = principals
        self._names: Mapping[str, str] = settings.users
        self._behind_proxy = settings.public_url is not None

    def find(self, asked: Asked) -> Principal | None:
        """None if a token is needed after all. Raises `Refusal` for a user who has no rights."""
        peer: SocketPeer | None = asked.of_connection.get(PEER)
        if peer is None or self._behind_proxy or asked.header(b"authorization") is not None:
            return None
        if any(name in asked.headers for name in (*_BROWSERS, *_PROXIES)):
            return None
        if peer.contained:
            raise Refusal(403, "a process in a container or a sandbox is not known by its user: send a token")
        if (named := self._names.get(peer.user_name) or self._names.get(str(peer.user))) is not None:
            if (principal := self._principals.current(named)) is not None:
                return principal
            raise Refusal(403, f"the token `{named}`, whose rights {peer.user_name} has here, is gone or has expired")
        if peer.user == os.geteuid():
            return self._principals.current(LOCAL_NAME)
        reason = (
            f"the user {peer.user_name} may do nothing here: `understudy.serve.users` gives them the rights of a token, or send one"
        )
        raise Refusal(403, reason)
