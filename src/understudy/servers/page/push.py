"""Web Push: tells browsers without an open page that a question waits.

The message has only ids, so that neither a lock screen nor a service on the way shows the question.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from understudy.config.private_file import PrivateFile
from understudy.config.serve import ServeSettings
from understudy.engine.engine import Engine
from understudy.engine.services.observing import ModelTiming
from understudy.errors import AgentError, ConfigError
from understudy.net.addresses import parse_url
from understudy.net.client import HttpClient
from understudy.net.failures import HttpFailure
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Question
from understudy.servers.http.answers import Refusal
from understudy.servers.http.browsers import Login, Visitor
from understudy.servers.http.principals import Principals
from understudy.servers.page.push_messages import Sender, Subscription, check_keys, encrypted

logger = logging.getLogger(__name__)

SECONDS = 20.0  # time limit of a push service
MOST_OF_ONE = 20  # browsers of one name; the oldest are removed first
MOST_AT_WORK = 100
LONGEST_ENDPOINT = 1000
GONE = (404, 410)  # a push service's status for a browser that is no longer subscribed


class Kept(msgspec.Struct, frozen=True):
    """`name` and `login`: whom the subscription is for, and through which login of the page."""

    subscription: Subscription
    name: str
    login: str


class Push:
    """An observer of the engine that also serves the page's `/push`."""

    def __init__(self, settings: ServeSettings, engine: Engine, principals: Principals) -> None:
        """Raises `ConfigError`."""
        self._services = settings.push_services
        self._sender = Sender(settings.state_dir, settings.push_subject or "")
        self._file = PrivateFile(settings.state_dir / "push.json", secret=True)
        self._engine = engine
        self._principals = principals
        self._http = HttpClient()
        self._work: set[asyncio.Task[None]] = set()
        self.public_key = self._sender.public

    # -- browsers

    def subscribe(self, visitor: Visitor, endpoint: str, keys: Mapping[str, str]) -> None:
        """Raises `Refusal` and `ConfigError`."""
        subscription = Subscription(endpoint, keys.get("p256dh", ""), keys.get("auth", ""))
        if not self._is_known(subscription.endpoint):
            raise Refusal(403, "messages are not sent to this push service; `understudy.push.services` names those that are known")
        try:
            check_keys(subscription)
        except ValueError:
            raise Refusal(400, "the keys of the subscription cannot be used") from None
        name = visitor.principal.name
        with self._file.locked():
            others = [each for each in self._read() if each.subscription.endpoint != subscription.endpoint]
            mine = [each for each in others if each.name == name][-(MOST_OF_ONE - 1) :]
            kept = [each for each in others if each.name != name]
            self._write([*kept, *mine, Kept(subscription, name, _name_of(visitor.login))])

    def forget(self, login: Login) -> None:
        """The person has logged out. Raises `ConfigError`."""
        self._keep(lambda each: each.login != _name_of(login))

    def _is_known(self, endpoint: str) -> bool:
        try:
            parts = urlsplit(endpoint)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.scheme != "https" or len(endpoint) > LONGEST_ENDPOINT or not endpoint.isascii() or parts.username is not None:
            return False
        named = host if port in (None, 443) else f"{host}:{port}"
        return any(named == each or (each.startswith("*.") and named.endswith(each[1:])) for each in self._services)

    def _read(self) -> list[Kept]:
        try:
            return msgspec.convert((self._file.read() or {}).get("browsers", []), list[Kept])
        except msgspec.ValidationError:
            return []

    def _write(self, kept: list[Kept]) -> None:
        self._file.write({"browsers": msgspec.to_builtins(kept)})

    def _keep(self, wanted: Callable[[Kept], bool]) -> None:
        with self._file.locked():
            found = self._read()
            if len(kept := [each for each in found if wanted(each)]) < len(found):
                self._write(kept)

    # -- questions

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        record = entry.record
        if isinstance(record, Question) and len(self._work) < MOST_AT_WORK:
            task = asyncio.get_running_loop().create_task(self._tell(conversation_id, record.call_id))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _tell(self, conversation_id: ConversationId, call_id: str) -> None:
        message = msgspec.json.encode({"conversation": conversation_id, "call": call_id})
        try:
            browsers = self._read()
        except ConfigError as error:
            logger.warning("browsers were not told of a question: %s", error)
            return
        for each in browsers:
            if await self._may_see(each.name, conversation_id):
                await self._send(each, message, conversation_id)

    async def _may_see(self, name: str, conversation_id: ConversationId) -> bool:
        principal = self._principals.current(name)
        if principal is None:
            return False
        try:
            await self._engine.find(principal.caller, conversation_id)
        except AgentError:
            return False
        return True

    async def _send(self, kept: Kept, message: bytes, topic: str) -> None:
        service = urlsplit(kept.subscription.endpoint).hostname
        try:
            body = encrypted(message, kept.subscription)
            headers = self._sender.headers(kept.subscription, topic)
            async with asyncio.timeout(SECONDS):
                response = await self._http.post(parse_url(kept.subscription.endpoint), headers, [body], seconds=SECONDS)
            response.abort()
        except (HttpFailure, TimeoutError, OSError, ValueError) as error:
            logger.warning("the push service %s was not told of a question: %s", service, type(error).__name__)
            return
        if response.status in GONE:
            self._keep(lambda each: each.subscription.endpoint != kept.subscription.endpoint)
        elif response.status >= 300:
            logger.warning("the push service %s was told of a question and answered %d", service, response.status)

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await self._http.aclose()

    # -- ignored events of an observer

    def called(self, method: str, params: bytes) -> None:
        """Ignored."""

    def reached(self, conversation_id: ConversationId) -> None:
        """Ignored."""

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        """Ignored."""

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Ignored."""

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Ignored."""


def _name_of(login: Login | None) -> str:
    return "" if login is None else login.name
