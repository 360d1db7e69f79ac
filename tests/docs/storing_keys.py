"""What the keys of `[understudy.store]` and `[understudy.cluster]` do, shown with the real program."""

from pathlib import Path

from tests.cli.program import Program
from tests.e2e.scenes import text_of
from tests.support.postgres import the_server, why_not
from understudy.testing import McpProcess, ScriptedModel, say

AWAY = "postgresql://nobody@127.0.0.1:1/nothing"  # nothing listens there


async def show_where_conversations_are_kept(folder: Path) -> None:
    """`url` and `url_file`."""
    folder.mkdir()
    (folder / "address").write_text(AWAY + "\n")
    for key, value in (("url", AWAY), ("url_file", str(folder / "address"))):
        config = {f"understudy.store.{key}": value}
        async with McpProcess("http://127.0.0.1:9/v1", cwd=folder, home=folder / key, config=config) as client:
            said = text_of(await client.call_tool("codex", prompt="hello"))
            assert "postgresql://nobody@127.0.0.1:1/nothing does not answer" in said


async def show_the_lease(folder: Path) -> None:
    """`lease_seconds`, where there is a server."""
    if why_not() is not None:
        return
    import psycopg

    folder.mkdir()
    url = the_server().new_tables()
    config = {"understudy.store.url": url, "understudy.cluster.lease_seconds": 7}
    async with (
        ScriptedModel([say("hello")]) as model,
        McpProcess(model, cwd=folder, home=folder / "home", config=config) as client,
    ):
        assert text_of(await client.call_tool("codex", prompt="hello")) == "hello"
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT extract(epoch FROM lease)::int FROM workers").fetchall() == [(7,)]


async def show_the_name_of_the_host(folder: Path) -> None:
    """`host_name`, where there is a server."""
    if why_not() is not None:
        return
    import psycopg

    folder.mkdir()
    url = the_server().new_tables()
    config = {"understudy.store.url": url, "understudy.cluster.host_name": "this-one"}
    async with ScriptedModel([say("hello")]) as model, McpProcess(model, cwd=folder, home=folder / "home", config=config) as client:
        assert text_of(await client.call_tool("codex", prompt="hello")) == "hello"
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT host FROM conversations").fetchall() == [("this-one",)]


async def show_one_key_of_the_seals(folder: Path) -> None:
    """`audit_key_file`, where there is a server."""
    if why_not() is not None:
        return
    folder.mkdir()
    url, verified = the_server().new_tables(), list[int]()
    for shared in (False, True):
        config = {"understudy.store.url": url}
        if shared:
            config["understudy.cluster.audit_key_file"] = str(folder / "audit.key")
        async with ScriptedModel([say("one"), say("two")]) as model:
            async with McpProcess(model, cwd=folder, home=folder / f"first {shared}", config=config) as client:
                thread = (await client.call_tool("codex", prompt="1"))["structuredContent"]["threadId"]
            async with McpProcess(model, cwd=folder, home=folder / f"second {shared}", config=config) as client:
                await client.call_tool("codex-reply", threadId=thread, prompt="2")
        verified.append((await Program(folder / f"second {shared}", folder).run_aside("verify", thread)).code)
    assert verified == [1, 0]


STORING = {
    show_where_conversations_are_kept: ("understudy.store.url", "understudy.store.url_file"),
    show_the_lease: ("understudy.cluster.lease_seconds",),
    show_the_name_of_the_host: ("understudy.cluster.host_name",),
    show_one_key_of_the_seals: ("understudy.cluster.audit_key_file",),
}
