"""Who could answer questions, as processes of one database tell each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.store.conformance.writing import written
from tests.store.records import new_id, opened
from tests.support.postgres import the_server
from understudy.store.postgres.log import PostgresLog


async def test_others_know_it_until_it_is_over_or_the_process_has_gone(tmp_path: Path) -> None:
    url, loop, name = the_server().new_tables(), asyncio.get_running_loop(), new_id()
    here, there = (PostgresLog(tmp_path, url, loop, host=each, front=True) for each in "xy")
    assert not await there.attendance.is_elsewhere(name)

    async def known(is_attended: bool) -> bool:
        """Writes are done in their order, so it is known once another one is."""
        here.attendance.note(name, is_attended)
        await written(lambda done: here.append(opened(new_id()), done))
        assert not await here.attendance.is_elsewhere(name), "oneself is not somebody else"
        return await there.attendance.is_elsewhere(name)

    assert [await known(each) for each in (True, True, False, False, True)] == [True, True, False, False, True]
    here.close()
    assert not await there.attendance.is_elsewhere(name)
    there.close()
