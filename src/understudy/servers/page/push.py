"""Web Push: tells browsers without an open page that a question waits.

The message has only ids, so that neither a lock screen nor a service on the way shows the question.
"""

import asyncio
import logging
import time
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
from understudy.servers.http.browsers import LIFETIME_SECONDS, Login, Visitor, digest_of
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.page.push_messages import Sender, Subscription, check_keys, encrypted

logger = logging.getLogger(__name__)

SECONDS = 20.0  # time limit of a push service
MOST_OF_ONE = 20  # browsers of one name; the oldest are removed first
MOST_AT_WORK = 100
MOST_AT_ONCE = 64  # messages on their way
LONGEST_ENDPOINT = 1000
GONE = (404, 410)  # a push service's status for a browser that is no longer subscribed


class Kept(msgspec.Struct, frozen=True):
    """`name` and `login`: whom the subscription is for, and through which login of the page. `token`: a digest of the token
    that the login stands for; `end`: when the login ends.
    """

    subscription: Subscription
    name: str
    login: str
    token: str = ""
    end: float = 0.0

    def stands_for(self, principal: Principal) -> bool:
        """Whoever has a token of the same name now may be somebody else."""
        return self.token == digest_of(principal).hex() and time.time() < self.end


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
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
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
            token, end = digest_of(visitor.principal).hex(), _end_of(visitor.login)
            self._write([*kept, *mine, Kept(subscription, name, _name_of(visitor.login), token, end)])

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
        await asyncio.gather(*(self._tell_one(each, message, conversation_id) for each in browsers))

    async def _tell_one(self, kept: Kept, message: bytes, conversation_id: ConversationId) -> None:
        """A service that does not answer holds up no browser of another one."""
        async with self._room:
            if await self._may_see(kept, conversation_id):
                await self._send(kept, message, conversation_id)

    async def _may_see(self, kept: Kept, conversation_id: ConversationId) -> bool:
        principal = self._principals.current(kept.name)
        if principal is None or not kept.stands_for(principal):
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
            try:
                self._keep(lambda each: each.subscription.endpoint != kept.subscription.endpoint)
            except ConfigError as error:
                logger.warning("a browser that is gone was not forgotten: %s", error)
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


def _end_of(login: Login | None) -> float:
    if login is None:
        return 0.0
    end = float(login.created + LIFETIME_SECONDS)
    return min(end, login.end) if login.end else end
