"""Which proxy an address is reached through, by the variables other tools honour too."""

from base64 import b64encode
from collections.abc import Mapping

from understudy.models.http.failures import Unreachable
from understudy.models.http.url import Url, parse_url


def proxy_for(url: Url, env: Mapping[str, str]) -> Url | None:
    """Loopback is no exception: who wants it direct says so in NO_PROXY. Raises Unreachable for a proxy we cannot use."""
    variable, value = _first(env, f"{url.scheme}_proxy", "all_proxy")
    if not value or _excluded(url, _first(env, "no_proxy")[1]):
        return None
    scheme, found, _ = value.partition("://")
    if found and scheme.lower() not in ("http", "https"):
        raise Unreachable(
            f"{variable} names a {scheme.lower()} proxy; only http and https proxies are supported", transient=False, why="proxy"
        )
    try:
        return parse_url(value if found else f"http://{value}")
    except ValueError as error:
        raise Unreachable(f"{variable} is {error}", transient=False, why="proxy") from None


def proxy_authorization(proxy: Url) -> str | None:
    return None if proxy.user is None else basic_authorization(proxy.user, proxy.password or "")


def basic_authorization(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _first(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    for name in names:
        for spelling in (name, name.upper()):
            if value := env.get(spelling, "").strip():
                return spelling, value
    return names[0], ""


def _excluded(url: Url, no_proxy: str) -> bool:
    return any(_matches(url, entry.strip().lower()) for entry in no_proxy.split(",") if entry.strip())


def _matches(url: Url, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(url.host, entry)
    host, port = _split_port(entry)
    if port is not None and port != url.port:
        return False
    host = host.removeprefix("*").lstrip(".")
    return url.host == host or url.host.endswith("." + host)


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        entry_port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, entry_port = entry.partition(":")
    else:
        return entry, None
    return host, int(entry_port) if entry_port.isdecimal() else None


def _in_network(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
