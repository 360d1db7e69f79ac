"""What a person does by REST besides talking: the live list, titles, archive, forks, undo, diffs, export, images."""

import asyncio
import base64
import json
from pathlib import Path

import pytest

from tests.e2e.scenes import names_offered
from tests.support.obliging_model import ObligingModel
from tests.support.rest_client import RestClient, Stream, log_in, serving_rest
from understudy.testing import ScriptedModel, call, say

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def finish(client: RestClient, conversation: str, stream: Stream, text: str) -> None:
    await client.post(f"/v1/conversations/{conversation}/messages", {"text": text})
    await stream.until("task_complete")


async def test_the_list_is_told_of_every_change_also_of_other_tabs(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "x"], with_escalated_permissions=True, justification="it is needed"), say("Done.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        stranger = RestClient(server.port, await server.add_token("ann"))
        changes, other = await client.changes(), await stranger.changes()
        row = await client.create(server.cwd, "Look", approval_policy="on-request", sandbox="workspace-write")
        waiting = await changes.until_it(lambda told: told["state"] == "waiting")
        assert (waiting["id"], waiting["waiting"][0]["command"]) == (row["id"], ["touch", "x"])
        decision = {"call_id": waiting["waiting"][0]["call_id"], "decision": "denied", "message": "not now"}
        await client.post(f"/v1/conversations/{row['id']}/decisions", decision)
        await changes.until_it(lambda told: told["state"] == "idle")
        await client.post(f"/v1/conversations/{row['id']}/archive")
        assert (await changes.until_it(lambda told: told["archived"]))["id"] == row["id"]
        await client.delete(f"/v1/conversations/{row['id']}")
        assert await changes.until_it(lambda told: "deleted" in told) == {"id": row["id"], "deleted": True}
        own = await stranger.create(server.cwd, sandbox="workspace-write")
        assert (await other.next())["id"] == own["id"]  # and nothing of anybody else's before


@pytest.mark.slow
async def test_a_conversation_is_renamed_archived_found_and_deleted(tmp_path: Path) -> None:
    async with ScriptedModel([say("Yes.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "First words")
        path = f"/v1/conversations/{row['id']}"
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        assert await client.post(f"{path}/rename", {"title": "A better one"}) == {"status": "ok", "title": "A better one"}
        renamed = await stream.until("thread_name_updated")
        assert (renamed["by"], renamed["msg"]["thread_name"]) == ("local", "A better one")
        for query, count in (("search=BETTER", 1), ("search=nothing", 0), (f"folder={tmp_path}", 1), ("folder=/etc", 0)):
            assert len((await client.get(f"/v1/conversations?{query}"))["conversations"]) == count, query
        assert await client.post(f"{path}/archive") == {"status": "ok", "message": None}
        assert (await client.get("/v1/conversations"))["conversations"] == []
        [archived] = (await client.get("/v1/conversations?archived=true"))["conversations"]
        assert (archived["title"], archived["archived"]) == ("A better one", True)
        await client.post(f"{path}/unarchive")
        assert len((await client.get("/v1/conversations"))["conversations"]) == 1
        await client.delete(path)
        assert (await stream.until("stream_ended"))["msg"]["reason"]
        assert await client.status("GET", path) == (404, "not_found")
        assert await client.status("DELETE", path) == (404, "not_found")
        assert "update_plan" in names_offered(model.requests[0])  # the page shows plans


@pytest.mark.slow
async def test_diffs_of_a_turn_and_of_the_whole_conversation_and_undo(tmp_path: Path) -> None:
    first = patch("*** Add File: a.txt", "+one", "+two", "+three")
    second = patch("*** Update File: a.txt", "@@", " one", "-two", "+2", " three")
    script = [
        call("apply_patch", input=first),
        say("Added."),
        call("apply_patch", input=second),
        say("Changed."),
    ]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Add", approval_policy="never", sandbox="workspace-write")
        path = f"/v1/conversations/{row['id']}"
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        await finish(client, row["id"], stream, "Change")
        turns = [event["data"]["turn"] for event in stream.seen if event["data"]["msg"]["type"] == "task_started"]
        whole = (await client.get(f"{path}/diff"))["diff"]
        assert whole.startswith("diff --git a/")
        changed = [line for line in whole.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        assert changed == ["+one", "+2", "+three"]
        of_second = (await client.get(f"{path}/diff?turn={turns[1]}"))["diff"]
        assert "-two\n+2\n" in of_second
        plain = await client.request("GET", f"{path}/diff?turn={turns[1]}", headers={"Accept": "*/*"})
        assert plain.headers["content-type"].startswith("text/x-diff")
        assert (await plain.body()).decode() == of_second
        assert await client.status("GET", f"{path}/diff?turn=99") == (404, "not_found")
        undone = await client.post(f"{path}/undo")
        assert undone["turn"] == turns[1]
        assert (server.cwd / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert "+two" in (await client.get(f"{path}/diff"))["diff"]
        await client.post(f"{path}/undo", {"turn": turns[0]})
        assert not (server.cwd / "a.txt").exists()
        assert (await client.get(f"{path}/diff"))["diff"] == ""
        assert (await client.status("POST", f"{path}/undo", {"turn": "77"}))[0] in (404, 409, 400)


@pytest.mark.slow
async def test_nothing_is_undone_for_a_token_outside_its_folders_or_modes(tmp_path: Path) -> None:
    script = [call("apply_patch", input=patch("*** Add File: a.txt", "+one")), say("Added.")]
    place = tmp_path / "place"
    place.mkdir()
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Add", approval_policy="never", sandbox="workspace-write")
        await (await client.stream(row["id"])).until("task_complete")
        others = ("--others", "run,read")
        elsewhere = RestClient(server.port, await server.add_token("elsewhere", "--root", str(place), *others))
        reading = RestClient(server.port, await server.add_token("reading", "--sandbox", "read-only", *others))
        looking = RestClient(server.port, await server.add_token("looking", "--others", "read"))
        for bound in (elsewhere, reading, looking):
            assert await bound.status("POST", f"/v1/conversations/{row['id']}/undo", {}) == (403, "forbidden")
            if bound is not looking:
                fork = await bound.post(f"/v1/conversations/{row['id']}/fork", {})
                assert await bound.status("POST", f"/v1/conversations/{fork['id']}/undo", {}) == (403, "forbidden")
        assert (server.cwd / "a.txt").read_text() == "one\n"
        free = RestClient(server.port, await server.add_token("free", *others))
        await free.post(f"/v1/conversations/{row['id']}/undo", {})
        assert not (server.cwd / "a.txt").exists()


@pytest.mark.slow
async def test_a_fork_begins_like_its_source_up_to_a_message(tmp_path: Path) -> None:
    async with ScriptedModel([say("One."), say("Two."), say("Other.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "1")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        await finish(client, row["id"], stream, "2")
        messages = [event["data"]["msg"]["message_id"] for event in stream.seen if event["data"]["msg"]["type"] == "user_message"]
        response = await client.request("POST", f"/v1/conversations/{row['id']}/fork", {"message": messages[0]})
        assert response.status == 201
        fork = await response.json()
        said = [event["msg"]["message"] for event in (await client.get(f"/v1/conversations/{fork['id']}/events"))["events"]
                if event["msg"]["type"] == "user_message"]  # fmt: skip
        assert said == ["1"]
        other = await client.stream(fork["id"], f"?after={fork['last_seq']}")
        await finish(client, fork["id"], other, "other")
        assert "Other." in [event["data"]["msg"].get("message") for event in other.seen]
        path = f"/v1/conversations/{row['id']}/fork"
        assert (await client.status("POST", path, {"message": UNKNOWN}))[0] == 400
        assert (await client.status("POST", path, {"message": "x"}))[0] == 400
        assert (await client.status("POST", path, {"turn": "1", "message": messages[0]}))[0] == 400


@pytest.mark.slow
async def test_images_are_taken_and_shown_as_nothing_but_pictures(tmp_path: Path) -> None:
    url = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    async with ScriptedModel([say("A pixel.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "What is it?", images=[url])
        stream = await client.stream(row["id"])
        message = (await stream.until("user_message"))["msg"]
        await stream.until("task_complete")
        [image] = message["images"]
        response = await client.request("GET", image["url"])
        assert (response.status, response.headers["content-type"]) == (200, "image/png")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]
        assert (await response.body()).startswith(b"\x89PNG")
        beginning = image["url"].rsplit("/", 2)[0]
        for rest in ("1/0", "99/0", "0/0", "2/9", "-1/0", "x/0", "2/x", "9999999999999999999/0", "%C2%B2/0"):
            assert (await client.request("GET", f"{beginning}/{rest}")).status == 404, rest
        ann = RestClient(server.port, await server.add_token("ann"))
        assert (await ann.request("GET", image["url"])).status == 404
        bad = await client.request("POST", "/v1/conversations", {"prompt": "x", "folder": str(server.cwd), "images": ["data:,x"]})
        assert bad.status == 400
        local = {"prompt": "x", "folder": str(server.cwd), "images": ["/etc/hostname"]}
        assert (await ann.status("POST", "/v1/conversations", local))[0] == 403


@pytest.mark.slow
async def test_any_turn_has_a_full_report_also_one_of_long_ago(tmp_path: Path) -> None:
    script = [call("shell", command=["ls"]), say("ls", usage=(5, 5))]
    for number in range(5):
        script += [call("shell", command=["test", str(number)]), say(str(number), usage=(5, 5))]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "")
        path = f"/v1/conversations/{row['id']}/report"
        assert await client.status("GET", path) == (404, "not_found")
        stream = await client.stream(row["id"])
        turns: list[str] = []
        for number in range(6):
            await client.post(f"/v1/conversations/{row['id']}/messages", {"text": str(number)})
            await stream.until("task_complete")
            turns.append((await client.get(path))["turn"])
        assert len(set(turns)) == 6
        reports = [await client.get(f"{path}?turn={turn}") for turn in turns]
        assert [report["turn"] for report in reports] == turns
        told = [(report["commands"][0]["command"], report["commands"][0]["exit_code"]) for report in reports]
        assert told == [(["ls"], 0), *((["test", str(number)], 0) for number in range(5))]
        assert all(report["seconds"] > 0 and report["tokens"] == 10 for report in reports)
        assert await client.status("GET", f"{path}?turn=99") == (404, "not_found")
        await server.kill()
        await server.start()
        again = RestClient(server.port, server.token)
        assert [await again.get(f"{path}?turn={turn}") for turn in turns] == reports


async def test_a_conversation_is_exported_as_the_command_line_does_it_and_for_reading(tmp_path: Path) -> None:
    script = [say("Here is ```code``` <script>alert(1)</script>.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Show me")
        await (await client.stream(row["id"])).until("task_complete")
        exported = await client.request("GET", f"/v1/conversations/{row['id']}/export")
        assert exported.headers["content-disposition"] == f'attachment; filename="{row["id"]}.jsonl"'
        lines = (await exported.body()).splitlines()
        assert json.loads(lines[0])["conversation_id"] == row["id"]
        assert json.loads(lines[0])["records"] == len(lines) - 1
        reading = await client.request("GET", f"/v1/conversations/{row['id']}/export?format=markdown")
        assert reading.headers["content-type"] == "text/markdown; charset=utf-8"
        assert reading.headers["content-disposition"].startswith("attachment")
        text = (await reading.body()).decode()
        assert "## User\n\nShow me\n" in text
        assert "## Agent\n\nHere is" in text
        page = await client.request("GET", f"/v1/conversations/{row['id']}/export?format=html")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-disposition"] == f'attachment; filename="{row["id"]}.html"'
        shared = (await page.body()).decode()
        assert f'data-conversation="{row["id"]}"' in shared
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shared
        assert await client.status("GET", f"/v1/conversations/{row['id']}/export?format=pdf") == (400, "bad_request")


@pytest.mark.slow
async def test_a_conversation_is_summed_up_when_asked(tmp_path: Path) -> None:
    async with ScriptedModel([say("One."), say("The summary.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Begin")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        response = await client.request("POST", f"/v1/conversations/{row['id']}/compact")
        assert response.status == 202
        await stream.until("context_compacted")
        await stream.until("task_complete")


@pytest.mark.slow
async def test_whoever_watches_sees_who_else_does(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, serving_rest(tmp_path, model) as (server, client):
        ann = RestClient(server.port, await server.add_token("ann", "--others", "read"))
        row = await client.create(server.cwd)
        first = await client.stream(row["id"])
        assert (await first.until("viewers"))["msg"]["viewers"] == ["local"]
        second = await ann.stream(row["id"])
        assert (await first.until("viewers"))["msg"]["viewers"] == ["local", "ann"]
        assert (await client.get(f"/v1/conversations/{row['id']}"))["viewers"] == ["local", "ann"]
        second.close()
        assert (await first.until("viewers"))["msg"]["viewers"] == ["local"]


@pytest.mark.slow
async def test_a_log_out_and_a_revoked_token_end_the_streams_that_are_open(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd)
        browser = await log_in(server)
        stream, changes = await browser.stream(row["id"]), await browser.changes()
        await stream.until("viewers")
        assert (await browser.request("POST", "/logout")).status == 204
        for each in (stream, changes):
            assert await each.is_over()
        ann = RestClient(server.port, await server.add_token("ann"))
        changes = await ann.changes()
        await server.revoke_token("ann")
        assert await changes.is_over()


@pytest.mark.slow
async def test_deleting_and_stopping_at_once_leave_nothing_behind_in_the_log(tmp_path: Path) -> None:
    async with ObligingModel() as model, serving_rest(tmp_path, model) as (server, client):
        for _ in range(5):
            row = await client.create(server.cwd, "talk")
            path = f"/v1/conversations/{row['id']}"
            deleted, *stopped = await asyncio.gather(
                client.request("DELETE", path),
                client.request("POST", f"{path}/interrupt"),
                client.request("POST", f"{path}/interrupt"),
            )
            assert deleted.status == 200
            assert {response.status for response in stopped} <= {200, 404}
        assert await server.stop() == 0
        assert "ERROR" not in server.stderr
