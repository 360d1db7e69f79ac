"""Settings of `understudy serve`: [understudy.serve] of config.toml, its flags, and what callers may choose whose tokens an issuer
has signed.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from understudy.config.file import read_config_file
from understudy.config.home import expand, state_dir
from understudy.config.overrides import apply, assignments
from understudy.config.schema import Mismatch, TreeReader, one_of
from understudy.config.store import read_store_choice
from understudy.config.tokens import DEFAULT_MODES, MODES
from understudy.errors import ConfigError
from understudy.protocol.choices import SandboxMode


class Choices(msgspec.Struct, frozen=True):
    """As for a named token."""

    roots: tuple[str, ...] | None = None  # folders in which they may work; None: anywhere
    modes: frozenset[SandboxMode] = frozenset(DEFAULT_MODES)


class IssuedChoices(msgspec.Struct, frozen=True):
    """A caller listed by subject gets that entry; others get all that their groups have; others what a plain token has."""

    subjects: Mapping[str, Choices] = {}
    groups: Mapping[str, Choices] = {}

    def of(self, subject: str, groups: Iterable[str]) -> Choices:
        if (own := self.subjects.get(subject)) is not None:
            return own
        found = [self.groups[group] for group in groups if group in self.groups]
        if not found:
            return Choices()
        anywhere = any(each.roots is None for each in found)
        roots = None if anywhere else tuple(dict.fromkeys(root for each in found for root in each.roots or ()))
        return Choices(roots, frozenset[SandboxMode]().union(*(each.modes for each in found)))


def read_issued_choices(read: TreeReader) -> IssuedChoices:
    """Raises `Mismatch`."""
    return IssuedChoices(*(_read_table(read, f"understudy.serve.{kind}") for kind in ("subjects", "groups")))


def _read_table(read: TreeReader, key: str) -> Mapping[str, Choices]:
    found: dict[str, Choices] = {}
    for name, table in read.named_tables(key).items():
        choices = TreeReader(table, f'{key}."{name}"')
        if unknown := set(table) - {"roots", "sandbox"}:  # a misspelt key would leave something open
            raise choices.mismatch(min(unknown), "it is not known", "`roots` or `sandbox`")
        roots, modes = choices.texts("roots"), choices.texts("sandbox")
        for root in roots or ():
            if not os.path.isabs(root):
                raise choices.mismatch("roots", f"invalid value: `{root}` is no absolute path", "a list of absolute paths")
        for mode in modes or ():
            if mode not in MODES:
                raise choices.mismatch("sandbox", f"invalid value: `{mode}`", f"a list of {one_of(MODES)}")
        allowed = DEFAULT_MODES if modes is None else cast(tuple[SandboxMode, ...], modes)
        found[name] = Choices(roots, frozenset(allowed))
    return found


DEFAULT_PORT = 8722
OnDisconnect = Literal["interrupt", "keep"]
_ON_DISCONNECT = ("interrupt", "keep")
MetricsDoor = Literal["token", "open", "off"]
_METRICS = ("token", "open", "off")
Role = Literal["all", "front", "worker"]  # does everything; begins conversations and shows what workers do; only works
LogFormat = Literal["text", "json"]
_LOG_FORMATS = ("text", "json")


PUSH_SERVICES = ("fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com", "*.notify.windows.com")


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    state_dir: Path
    role: Role = "all"
    host_name: str | None = None  # of this machine, for the other servers of the same database
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    unix: Path | None = None  # a socket to listen on
    on_port: bool = True  # whether it also listens on host and port
    unix_group: str | None = None  # the group that may connect to it, besides the user
    users: Mapping[str, str] = {}  # users of this machine, with the named token whose rights each has over the socket
    token_file: Path  # with the first token, which is the local user's
    tls_cert: Path | None = None
    tls_key: Path | None = None
    public_url: str | None = None  # the address that clients use, if it differs from where the server listens
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()  # addresses or ranges whose `X-Forwarded-For` is believed
    no_auth: bool = False
    on_disconnect: OnDisconnect = "interrupt"  # what happens to a turn when its caller disconnects, if that ends the call
    max_body_mb: int = 32
    rate: int = 100  # requests per second for each named token; 0: no limit
    concurrency: int = 100  # open requests of each named token, and likewise running turns; 0: no limit
    drain_seconds: float = 5.0  # that running turns get when the server is told to end
    metrics: MetricsDoor = "token"  # who may read /metrics: those with a token, anybody, or nobody
    log_format: LogFormat = "text"
    issuer: str | None = None  # whose signed tokens (JWT) are accepted, too
    audience: str | None = None  # the audience that they must name; None: our own address
    issued: IssuedChoices = IssuedChoices()  # what callers with such a token may choose
    groups_claim: str = "groups"  # where such a token names its caller's groups
    keep_days: int = 0  # after which an unused conversation is deleted; 0: never
    max_store_mb: int = 0  # limit of the store; 0: none
    push_subject: str | None = None  # the contact for push services; None: browsers are not notified of questions
    push_services: tuple[str, ...] = PUSH_SERVICES


def read_serve(home: Path, cli: Sequence[tuple[str, Any]], flags: Mapping[str, Any], env: Mapping[str, str]) -> ServeSettings:
    """`cli` are settings of `-c`, `flags` those of `serve` by name. Raises `ConfigError`."""
    tree = apply(read_config_file(home).tree, assignments(cli, "`-c`"))
    tree = apply(tree, assignments(((f"understudy.serve.{name}", value) for name, value in flags.items()), "a flag"))
    read = TreeReader(tree)
    try:
        return serve_settings(home, read, env)
    except Mismatch as slip:
        raise ConfigError(f"{slip.complaint}\nin `{slip.key}`\n`{slip.key}` should be {slip.wanted}.") from None


def serve_settings(home: Path, read: TreeReader, env: Mapping[str, str]) -> ServeSettings:
    """Raises `Mismatch`."""

    def key(name: str) -> str:
        return f"understudy.serve.{name}"

    def path(name: str) -> Path | None:
        text = read.text(key(name))
        return None if not text else expand(text, base=home, env=env)

    def number(name: str, default: int) -> int:
        value = read.count(key(name))
        return default if value is None else value

    read.table("understudy.serve")
    port = number("port", DEFAULT_PORT)
    if port > 65535:
        raise read.mismatch(key("port"), f"invalid value: integer `{port}`", "a port: a whole number up to 65535")
    drain = read.amount(key("drain_seconds"))
    body = number("max_body_mb", 32)
    if body == 0:
        raise read.mismatch(key("max_body_mb"), "invalid value: `0`", "a number of megabytes above 0")
    choice = read.choice(key("on_disconnect"), _ON_DISCONNECT)
    settings = ServeSettings(
        state_dir=state_dir(home),
        host=read.text(key("host")) or "127.0.0.1",
        port=port,
        unix=path("unix"),
        on_port=not read.text(key("unix")) or read.value(key("host")) is not None or read.value(key("port")) is not None,
        unix_group=read.text(key("unix_group")) or None,
        users=read.text_table(key("users")),
        token_file=path("token_file") or state_dir(home) / "token",
        tls_cert=path("tls_cert"),
        tls_key=path("tls_key"),
        public_url=read.text(key("public_url")),
        allow_host=read.texts(key("allow_host")) or (),
        allow_origin=read.texts(key("allow_origin")) or (),
        trusted_proxies=read.texts(key("trusted_proxies")) or (),
        no_auth=bool(read.flag(key("no_auth"))),
        on_disconnect=cast(OnDisconnect, choice or "interrupt"),
        max_body_mb=body,
        rate=number("rate", 100),
        concurrency=number("concurrency", 100),
        drain_seconds=5.0 if drain is None else drain,
        metrics=cast(MetricsDoor, read.choice(key("metrics"), _METRICS) or "token"),
        issuer=read.text(key("issuer")) or None,
        audience=read.text(key("audience")) or None,
        issued=read_issued_choices(read),
        groups_claim=read.text(key("groups_claim")) or "groups",
        keep_days=number("keep_days", 0),
        max_store_mb=number("max_store_mb", 0),
        push_subject=read.text("understudy.push.subject") or None,
        push_services=_or(read.texts("understudy.push.services"), PUSH_SERVICES),
        log_format=cast(LogFormat, read.choice(key("log_format"), _LOG_FORMATS) or "text"),
    )
    if settings.push_subject is not None and not settings.push_subject.startswith(("mailto:", "https://")):
        wanted = "an address such as mailto:me@example.org or https://example.org"
        raise read.mismatch("understudy.push.subject", "invalid value: it is no address", wanted)
    if settings.max_store_mb:
        _refuse_size_of_a_database(home, read, env)
    if settings.unix is not None and settings.no_auth:
        wanted = "left out, with a socket: whoever connects to it is known by their user"
        raise read.mismatch(key("no_auth"), "it would give everybody all rights", wanted)
    if settings.public_url is not None and not _is_address(settings.public_url):
        raise read.mismatch(key("public_url"), "invalid value: it is no address", "an address such as https://agents.example.org")
    for proxy in settings.trusted_proxies:
        if not _is_network(proxy):
            complaint = f"invalid value: `{proxy}` is no address"
            raise read.mismatch(key("trusted_proxies"), complaint, "a list of addresses or ranges, such as 10.0.0.0/8")
    if settings.issuer is not None and not _is_address(settings.issuer):
        raise read.mismatch(key("issuer"), "invalid value: it is no address", "an address such as https://login.example.org")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        lacking, given = ("tls_key", "tls_cert") if settings.tls_key is None else ("tls_cert", "tls_key")
        flag = "--" + lacking.replace("_", "-")
        raise Mismatch(
            key(lacking), f"TLS needs a certificate and its key, and only `{given}` is set", f"a file: {flag} FILE names one"
        )
    return settings


def _refuse_size_of_a_database(home: Path, read: TreeReader, env: Mapping[str, str]) -> None:
    if read_store_choice(home, env).url is not None:
        key = "understudy.serve.max_store_mb"
        wanted = "left out, with `understudy.store.url`; `keep_days` deletes by age"
        raise read.mismatch(key, "a database looks after its own size", wanted)


def _or(given: tuple[str, ...] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if given is None else given


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        return False
    return not (parts.query or parts.fragment) and url.isascii() and url.isprintable() and " " not in url
