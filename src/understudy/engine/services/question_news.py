"""`on_question`: the user's own program and address that are told of each question, so that somebody can answer it.

Nothing waits for them. The program is called like `notify`; the address gets the same JSON, signed with our key.
"""

import asyncio
import hmac
import logging
import os
import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.model import QuestionSettings
from understudy.config.running_server import link_to
from understudy.engine.services.notifying import MOST_BYTES, MOST_CHARACTERS, Notifier, NotifyProgram, cut_text
from understudy.errors import AgentError
from understudy.net import HttpClient, HttpFailure
from understudy.net.addresses import parse_url
from understudy.policy.question_text import kind_of, question_text
from understudy.policy.secrets import REDACTED, secret_pattern
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.text import quote_command

logger = logging.getLogger(__name__)

KEY = "understudy.on_question"
HEADER = "X-Understudy-Signature"
KEY_FILE = "signing_key"
SECONDS = 10.0  # for an address to answer
CLOSE_SECONDS = 2.0  # how long an ending process waits for addresses that have not answered
MOST_POSTS = 16  # at once; further ones are not sent
MOST_FILES = 200

_encode = msgspec.json.Encoder().encode


class OpenedQuestion(msgspec.Struct, frozen=True):
    """What the program and the address are told."""

    conversation_id: str
    turn_id: str
    cwd: str
    question: Question
    link: str | None = None  # to the question on the page; following it answers nothing

    def argument(self, hide: Callable[[str], str]) -> bytes:
        """The JSON, short enough for an argument. `hide` removes secrets from a text."""
        most = MOST_CHARACTERS
        while len(told := _encode(self._payload(lambda text: cut_text(hide(cut_text(text, 2 * most)), most)))) > MOST_BYTES:  # noqa: B023
            most //= 2
        return told

    def _payload(self, fit: Callable[[str], str]) -> dict[str, Any]:
        question = self.question
        told: dict[str, Any] = {
            "type": "approval-requested",
            "thread-id": self.conversation_id,
            "turn-id": self.turn_id,
            "call-id": question.call_id,
            "cwd": self.cwd,
            "kind": kind_of(question),
            "question": fit(question_text(question, self.cwd)),
        }
        if self.link is not None:
            told["link"] = self.link
        match question:
            case CommandApprovalAsked(command=command):
                told["command"] = fit(quote_command(command))
            case PatchApprovalAsked(changes=changes):
                told["files"] = [fit(path) for path in list(changes)[:MOST_FILES]]
            case ToolApprovalAsked(server=server, tool=tool):
                told["tool"] = fit(f"{server}/{tool}")
            case BudgetAsked(limit=limit):
                told["limit"] = limit
            case HookApprovalAsked(tool=tool, hook=hook):
                told |= {"tool": fit(tool), "hook": fit(hook)}
            case UserInputAsked():
                pass
        return told


class QuestionTeller:
    """Tells the programs and addresses of one process."""

    def __init__(self, notifier: Notifier, http: HttpClient) -> None:
        self._notifier = notifier
        self._http = http
        self._posts: set[asyncio.Task[None]] = set()

    def tell(
        self, settings: QuestionSettings, home: Path, state_dir: Path, known: Callable[[], Iterable[str]], opened: OpenedQuestion
    ) -> None:
        """Returns at once, and never raises."""
        opened = msgspec.structs.replace(opened, link=link_to(state_dir, opened.conversation_id))
        if settings.command:
            self._notifier.tell(NotifyProgram(settings.command, home, known, KEY), opened)
        if settings.url is not None and len(self._posts) < MOST_POSTS:
            post = asyncio.get_running_loop().create_task(self._post(settings.url, state_dir, known, opened))
            self._posts.add(post)
            post.add_done_callback(self._posts.discard)
        elif settings.url is not None:
            logger.warning("`%s.url` was not told of every question: %d posts have no answer yet", KEY, MOST_POSTS)

    async def _post(self, url: str, state_dir: Path, known: Callable[[], Iterable[str]], opened: OpenedQuestion) -> None:
        try:
            address = parse_url(url)
            pattern = secret_pattern(known())
            body = opened.argument(lambda text: pattern.sub(REDACTED, text))
            signature = hmac.new(signing_key(state_dir), body, sha256).hexdigest()
            headers = [("content-type", "application/json"), (HEADER, f"sha256={signature}")]
            async with asyncio.timeout(SECONDS):
                response = await self._http.post(address, headers, [body], seconds=SECONDS)
            response.abort()
            if response.status >= 300:
                logger.warning("`%s.url` was told of a question and answered %d", KEY, response.status)
        except (HttpFailure, TimeoutError, OSError, ValueError, AgentError) as error:
            logger.warning("`%s.url` was not told of a question: %s", KEY, str(error) or "no answer in time")
        except Exception:
            logger.exception("bug in telling `%s.url` of a question", KEY)

    async def aclose(self) -> None:
        """The process ends: wait briefly for unfinished requests."""
        if self._posts:
            _, left = await asyncio.wait(self._posts, timeout=CLOSE_SECONDS)
            for post in left:
                post.cancel()
            if left:
                await asyncio.wait(left)


def signing_key(state_dir: Path) -> bytes:
    """The key for signatures: the text of a file that only the user can read, made on first use."""
    path = state_dir / KEY_FILE
    try:
        return path.read_bytes().strip()
    except FileNotFoundError:
        pass
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")
    try:
        os.link(beside, path)  # unlike a rename, this does not replace a key that another process has just made
    except FileExistsError:
        pass
    finally:
        os.unlink(beside)
    return path.read_bytes().strip()
