"""`understudy verify`: whether conversations are what was written."""

import json
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from understudy.cli.stored import home, open_stored, write
from understudy.cli.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.log import Audited, Holder, Store
from understudy.store.lookup import find_id
from understudy.store.opening import store_exists

BROKEN = 1
NO_SUCH = 2


def run(options: Namespace) -> int:
    if options.page is not None:
        from understudy.cli.verify_page import run as verify_page  # only here

        return verify_page(options)
    if options.head is not None and options.id is None:
        return _refuse("--head is the digest of a record of one conversation: name it")
    if not store_exists(home()):
        if options.id is not None:
            return _refuse(f"no conversation {options.id}; there are none yet")
        if not options.json:
            print("There are no conversations yet.")
        return 0
    try:
        return wait_for(lambda: _verify(options))
    except (UnknownConversation, BadRequest) as error:
        return _refuse(str(error))


def _refuse(text: str) -> int:
    print(f"understudy: {one_line(text)}", file=sys.stderr)
    return NO_SUCH


async def _verify(options: Namespace) -> int:
    async with open_stored() as log:
        ids = [await find_id(log, options.id)] if options.id is not None else await log.ids()
        found = broken = 0
        async for audited in _audits(log, ids, options):
            found += 1
            broken += audited.broken is not None
            print(json.dumps(as_json(audited)) if options.json else _describe(audited), flush=True)
        if options.id is not None:
            if not found:
                raise UnknownConversation(f"no conversation {options.id}: it was deleted just now")
            return BROKEN if broken else 0
        lost = await log.without_entry()
        if not options.json:
            print(_sum_up(found, broken))
        if lost:
            print(f"understudy: records of {_count(lost, 'conversation')} are there whose entry is gone", file=sys.stderr)
        return BROKEN if broken or lost else 0


async def _audits(log: Store, ids: Any, options: Namespace) -> AsyncIterator[Audited]:
    for conversation_id in ids:
        audited = await log.audit(conversation_id, options.head)
        if audited is not None and options.seal and audited.broken is not None and audited.broken.kind == "seal":
            audited = await _seal(log, conversation_id, options.head)
        if audited is not None:  # else it was deleted meanwhile
            yield audited


async def _seal(log: Store, conversation_id: ConversationId, head: str | None) -> Audited | None:
    claim = await log.claim(conversation_id)
    if isinstance(claim, Holder):
        raise BadRequest(f"{conversation_id} is in use; seal it when its turn is over")
    try:
        audited = await log.audit(conversation_id)
        if audited is not None and audited.broken is not None and audited.broken.kind == "seal":
            digest = bytes.fromhex(audited.head)
            await write(lambda done: log.seal(conversation_id, audited.records, digest, done))
        return await log.audit(conversation_id, head)
    finally:
        claim.release()


def as_json(audited: Audited) -> dict[str, Any]:
    return {**msgspec.to_builtins(audited), "whole": audited.broken is None}


def _describe(audited: Audited) -> str:
    if audited.broken is not None:
        lines = [f"{audited.conversation_id}  BROKEN at record {audited.broken.seq}: {one_line(audited.broken.text)}"]
    else:
        lines = [f"{audited.conversation_id}  whole, {_count(audited.records, 'record')}, sealed, head {audited.head}"]
    if audited.head_at is not None:
        later = audited.records - audited.head_at
        since = f", and {_count(later, 'record')} came later" if later else ""
        lines.append(f"  the digest given is that of record {audited.head_at}{since}")
    if audited.older:
        about = "have digests from when the store got its present format; nothing shows what they were before"
        lines.append(f"  the first {_count(audited.older, 'record')} {about}")
    if audited.uncovered:
        lines.append(
            f"  the first {_count(audited.uncovered, 'record')} have no digests: they could not be read when they should get some"
        )
    return "\n".join(lines)


def _sum_up(found: int, broken: int) -> str:
    return f"{_count(found, 'conversation')}: {f'{broken} broken' if broken else 'all whole'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
