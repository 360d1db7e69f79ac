"""Three hosts and two front ends on one database: what is begun at one front is gone on with, watched and changed at the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.machines import content, machines, thread
from understudy.testing import say


@pytest.mark.slow
async def test_conversations_are_spread_over_hosts_and_gone_on_with_through_any_front(tmp_path: Path) -> None:
    async with machines(tmp_path, lambda request: say(f"ok {len(request.body['messages'])}")) as those:
        x, y = await those.client("x"), await those.client("y")
        threads: list[str] = []
        for number in range(3):
            begun = await x.result("codex", {"prompt": "hello", "cwd": str(those.work(str(number)))})
            threads.append(thread(begun))
        assert sorted(row[0] for row in those.rows("SELECT host FROM conversations")) == ["a", "b", "c"]
        for name in threads:
            assert content(await y.result("codex-reply", {"threadId": name, "prompt": "more"})).startswith("ok")
        again = await y.result("codex", {"prompt": "beside", "cwd": str(tmp_path / "work" / "0")})
        assert those.host_of(thread(again)) is those.host_of(threads[0]), "a folder is on one host"
        listed = (await y.result("conversationsList", {}))["structuredContent"]["conversations"]
        assert len(listed) == 4


async def test_roles_are_refused_with_a_reason_where_they_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_STORE_URL_FILE", raising=False)  # with a database they can be had
    (tmp_path / "home").mkdir()
    program = Program(tmp_path / "home", tmp_path)
    for words, reason in (
        (("serve", "--role", "front"), "`--role front` is for servers of many machines"),
        (("serve", "--host-name", "a b"), "`--host-name a b` should be a name of letters"),
        (("workers",), "`understudy.store.url` names none"),
    ):
        refused = await program.run_aside(*words)
        assert (refused.code, "Traceback" in refused.err) == (1, False)
        assert reason in refused.err


@pytest.mark.slow
async def test_a_second_worker_of_one_state_folder_is_refused(tmp_path: Path) -> None:
    async with machines(tmp_path, [], workers=("a",), fronts=()) as those:
        home = those.servers["a"].home.path
        second = await Program(home, tmp_path).run_aside("serve", "--role", "worker", "--host-name", "a", "--port", "0")
        assert second.code == 1
        assert "another process serves host a from this state folder" in second.err
