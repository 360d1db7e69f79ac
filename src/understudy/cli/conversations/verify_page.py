"""`understudy verify --page`: checks whether a shared page shows what the store contains."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from understudy.cli.stored import home, open_stored
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.servers.sharing.comparing import PageFacts, facts_of, first_difference, masked_places
from understudy.store.log import Audited
from understudy.store.opening import store_exists

DIFFERS = 1
NO_SUCH = 2


def run(options: Namespace) -> int:
    if options.id is not None or options.head is not None or options.seal:
        return _refuse("--page says by itself which conversation it is about: leave out ID, --head and --seal")
    try:
        page = _read(options.page)
        facts = facts_of(page)
        if not store_exists(home()):
            raise UnknownConversation(f"no conversation {facts.conversation_id}; there are none yet")
        audited, entries = wait_for(lambda: _stored(facts))
    except (BadRequest, UnknownConversation) as error:
        return _refuse(str(error))
    wrong = _find_wrong(page, facts, audited, entries)
    if options.json:
        print(json.dumps({"conversation_id": facts.conversation_id, "records": facts.records, "head": facts.head, "wrong": wrong}))
    elif wrong is None:
        masked = masked_places(page)
        but = f", but for {masked} masked place{'' if masked == 1 else 's'}" if masked else ""
        print(f"{facts.conversation_id}  the page shows records 1 to {facts.records} as the store has them{but}, head {facts.head}")
    else:
        print(f"{facts.conversation_id}  NOT what the store has: {wrong}")
    return 0 if wrong is None else DIFFERS


def _find_wrong(page: str, facts: PageFacts, audited: Audited, entries: Sequence[Entry]) -> str | None:
    if audited.head_at != facts.records:
        broken = f" (the store itself is broken at record {audited.broken.seq})" if audited.broken is not None else ""
        return f"no record {facts.records} of the conversation has the digest {facts.head}{broken}"
    line = first_difference(page, facts, entries)
    return None if line is None else f"the page was changed in line {line}"


async def _stored(facts: PageFacts) -> tuple[Audited, Sequence[Entry]]:
    async with open_stored() as log:
        conversation_id = ConversationId(facts.conversation_id)
        audited = await log.audit(conversation_id, facts.head)
        if audited is None:
            raise UnknownConversation(f"no conversation {facts.conversation_id}")
        entries = await log.read(conversation_id, limit=facts.records) if audited.head_at == facts.records else ()
        return audited, entries


def _read(name: str) -> str:
    try:
        return (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode()
    except OSError as error:
        raise BadRequest(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRequest(f"{name} is no page: it is not UTF-8") from None


def _refuse(text: str) -> int:
    print(f"understudy: {one_line(text)}", file=sys.stderr)
    return NO_SUCH
