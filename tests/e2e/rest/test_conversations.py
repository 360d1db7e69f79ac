"""Conversations by REST: begin, list, watch, send, decide, stop; each caller only their own."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.rest_client import RestClient, log_in, serving_rest
from understudy.testing import HOLD, ScriptedModel, call, deltas, say

UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"


async def test_a_conversation_is_begun_watched_and_listed(tmp_path: Path) -> None:
    async with ScriptedModel([say("Hello there.")]) as model, serving_rest(tmp_path, model) as (server, client):
        response = await client.request("POST", "/v1/conversations", {"prompt": "Greet me", "folder": str(server.cwd)})
        assert response.status == 201
        row = await response.json()
        assert response.headers["location"] == f"/v1/conversations/{row['id']}"
        stream = await client.stream(row["id"])
        ended = await stream.until("task_complete")
        assert ended["msg"]["last_agent_message"] == "Hello there."
        kinds = [event["data"]["msg"]["type"] for event in stream.seen]
        assert kinds[0] == "session_configured"
        assert "user_message" in kinds
        page = await client.get(f"/v1/conversations/{row['id']}/events")
        told = stream.records()
        assert page["events"] == [event["data"] for event in told]
        assert [event["id"] for event in told] == [event["id"] for event in page["events"]]
        assert (page["first"], page["last"], page["more"]) == (1, page["end"], False)
        [listed] = (await client.get("/v1/conversations"))["conversations"]
        assert (listed["id"], listed["title"], listed["state"]) == (row["id"], "Greet me", "idle")
        assert (await client.get(f"/v1/conversations/{row['id']}"))["last_seq"] == page["end"]


@pytest.mark.slow
async def test_pages_of_events_go_back_from_the_end_without_a_gap(tmp_path: Path) -> None:
    async with ScriptedModel([say("One."), say("Two."), say("Three.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "1")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        for text in ("2", "3"):
            await client.post(f"/v1/conversations/{row['id']}/messages", {"text": text})
            await stream.until("task_complete")
        path = f"/v1/conversations/{row['id']}/events"
        whole = (await client.get(f"{path}?limit=1000"))["events"]
        backwards: list[dict[str, object]] = []
        page = await client.get(f"{path}?limit=4")
        while True:
            backwards[:0] = page["events"]
            if not page["more"]:
                break
            page = await client.get(f"{path}?limit=4&before={page['first']}")
        assert backwards == whole
        forwards: list[dict[str, object]] = []
        after = 0
        while True:
            page = await client.get(f"{path}?limit=3&after={after}")
            forwards += page["events"]
            after = page["last"]
            if not page["more"]:
                break
        assert forwards == whole


@pytest.mark.slow
async def test_a_stream_resumed_in_the_middle_of_an_answer_gives_exactly_the_rest(tmp_path: Path) -> None:
    words = [f"word{number} " for number in range(6)]
    script = [deltas([*words[:3], HOLD, *words[3:]])]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Talk")
        first = await client.stream(row["id"])
        text = ""
        while len(text) < len(words[0] + words[1]):
            event = await first.next()
            text += event["msg"].get("delta", "")
        first.close()
        second = await client.stream(row["id"], last_event_id=first.last_id)
        third = await client.stream(row["id"], last_event_id=first.last_id)
        model.release()
        for stream in (second, third):
            assert (await stream.until("task_complete"))["msg"]["last_agent_message"] == "".join(words)
            rest = "".join(event["data"]["msg"].get("delta", "") for event in stream.seen)
            assert text + rest == "".join(words)
        late = await client.stream(row["id"], last_event_id=first.last_id)  # the answer is finished by now
        await late.until("task_complete")
        assert text + "".join(event["data"]["msg"].get("delta", "") for event in late.seen) == "".join(words)
        fresh = await client.stream(row["id"])
        await fresh.until("task_complete")
        assert not any("delta" in event["data"]["msg"] for event in fresh.seen)


@pytest.mark.slow
async def test_a_stream_resumed_at_any_of_its_ids_tells_exactly_the_rest(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "hi"]), say("Done.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Go")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        told = stream.records()
        for number, event in enumerate(told[:-1]):
            again = await client.stream(row["id"], last_event_id=event["id"])
            await again.until("task_complete")
            assert [each["data"] for each in again.records()] == [each["data"] for each in told[number + 1 :]], event
            again.close()


@pytest.mark.slow
async def test_the_first_decision_counts_and_the_second_is_told_who_was_first(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed"), say("Made.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        browser = await log_in(server)
        row = await browser.create(server.cwd, "Make it", approval_policy="on-request", sandbox="workspace-write")
        stream = await browser.stream(row["id"])
        asked = (await stream.until("exec_approval_request"))["msg"]
        [question] = (await browser.get(f"/v1/conversations/{row['id']}"))["questions"]
        assert question["command"] == ["touch", "made"]
        assert {choice["decision"] for choice in question["choices"]} == {"approved", "approved_for_session", "denied", "abort"}
        assert asked["question"] == question
        [listed] = (await browser.get("/v1/conversations?state=waiting"))["conversations"]
        assert [each["call_id"] for each in listed["waiting"]] == [question["call_id"]]
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        path = f"/v1/conversations/{row['id']}/decisions"
        assert (await browser.post(path, decision))["status"] == "ok"
        second = await client.request("POST", path, decision | {"decision": "denied"})
        assert second.status == 409
        error = (await second.json())["error"]
        assert (error["code"], error["by"], error["decision"]) == ("already_decided", "local", "approved")
        decided = await stream.until("approval_decided")
        assert (decided["by"], decided["msg"]["decision"]) == ("local", "approved")
        await stream.until("task_complete")
        assert (server.cwd / "made").exists()
        assert await client.status("POST", path, {"call_id": "none", "decision": "approved"}) == (404, "not_found")


async def test_a_turn_can_be_stopped_steered_and_followed_by_another(tmp_path: Path) -> None:
    script = [deltas(["I ", HOLD]), say("Second.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Begin")
        path = f"/v1/conversations/{row['id']}"
        stream = await client.stream(row["id"])
        await stream.until("agent_message_content_delta")
        assert (await client.get(path))["state"] == "working"
        assert (await client.post(f"{path}/interrupt"))["interrupted"]
        await stream.until("turn_aborted")
        assert (await client.get(path))["state"] == "interrupted"
        assert await client.status("POST", f"{path}/messages", {"text": "x", "mode": "steer"}) == (409, "no_turn")
        sent = await client.request("POST", f"{path}/messages", {"text": "Again"})
        assert sent.status == 202
        await stream.until("task_complete")
        assert not (await client.post(f"{path}/interrupt"))["interrupted"]


@pytest.mark.slow
async def test_another_caller_s_conversation_is_answered_like_one_that_is_not_there(tmp_path: Path) -> None:
    async with ScriptedModel([say("Secret.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Private")
        await (await client.stream(row["id"])).until("task_complete")
        ann = RestClient(server.port, await server.add_token("ann"))
        attempts = [
            ("GET", "", None),
            ("GET", "/events", None),
            ("GET", "/events?stream=1", None),
            ("POST", "/messages", {"text": "x"}),
            ("POST", "/decisions", {"call_id": "x", "decision": "approved"}),
            ("POST", "/interrupt", None),
        ]
        for method, path, body in attempts:
            answers: list[tuple[int, bytes]] = []
            for conversation in (row["id"], UNKNOWN, "no-uuid"):
                response = await ann.request(method, f"/v1/conversations/{conversation}{path}", body)
                answers.append((response.status, await response.body()))
            assert answers[0] == answers[1] == answers[2], path
            assert answers[0][0] == 404
        assert (await ann.get("/v1/conversations")) == {"conversations": [], "next_cursor": None}


@pytest.mark.slow
async def test_rights_roots_and_modes_of_a_token_hold_as_for_mcp(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, serving_rest(tmp_path, model) as (server, _):
        reader = RestClient(server.port, await server.add_token("reader", "--rights", "read"))
        assert (await reader.get("/v1/me"))["rights"] == ["read"]
        assert await reader.status("POST", "/v1/conversations", {"folder": str(server.cwd)}) == (403, "forbidden")
        place = tmp_path / "place"
        place.mkdir()
        flags = ("--root", str(place), "--sandbox", "read-only")
        bound = RestClient(server.port, await server.add_token("bound", *flags))
        me = await bound.get("/v1/me")
        assert (me["roots"], me["sandbox_modes"]) == ([str(place)], ["read-only"])
        elsewhere = {"folder": str(server.cwd), "sandbox": "read-only"}
        assert await bound.status("POST", "/v1/conversations", elsewhere) == (403, "forbidden")
        assert await bound.status("POST", "/v1/conversations", {"folder": str(place), "sandbox": "workspace-write"}) == (
            403,
            "forbidden",
        )
        assert await bound.status("POST", "/v1/conversations", {"folder": str(place), "sandbox": "read-only"}) == (201, "")


async def test_requests_are_read_strictly(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, client):
        row = await client.create(server.cwd)
        assert row["state"] == "idle"
        wrong: list[tuple[str, str, Any, str]] = [
            ("POST", "/v1/conversations", {"promt": "x"}, "promt"),
            ("POST", "/v1/conversations", {"prompt": 1}, "str"),
            ("POST", "/v1/conversations", [], "object"),
            ("POST", "/v1/conversations", b"{", "JSON"),
            ("POST", "/v1/conversations", b'{"prompt": "\xff"}', "JSON"),
            ("POST", "/v1/conversations", {"folder": "/no/such/folder"}, "folder"),
            ("POST", "/v1/conversations", {"approval_policy": "always"}, "always"),
            ("POST", "/v1/conversations", b'{"config":' + b'{"a":' * 900 + b"1" + b"}" * 901, "levels"),
            (
                "POST",
                f"/v1/conversations/{row['id']}/messages",
                b'{"text":"x","config":' + b'{"a":' * 900 + b"1" + b"}" * 901,
                "levels",
            ),
            ("GET", "/v1/conversations?limits=1", None, "limits"),
            ("GET", "/v1/conversations?limit=1000", None, "limit"),
            ("GET", "/v1/conversations?limit=1&limit=2", None, "twice"),
            ("GET", "/v1/conversations?cursor=x", None, "cursor"),
            ("GET", "/v1/me?token=x", None, "query"),
            ("GET", f"/v1/conversations/{row['id']}/events?after=-1", None, "after"),
            ("POST", f"/v1/conversations/{row['id']}/messages", {}, "text"),
        ]
        for method, path, body, named in wrong:
            response = await client.request(method, path, body)
            assert response.status == 400, path
            assert named in (await response.json())["error"]["message"], (path, await response.body())
        assert await client.status("POST", "/v1/conversations", {}, Content_Type="text/plain") == (415, "unsupported_media_type")
        assert await client.status("GET", "/v1/nothing") == (404, "not_found")
        gone = await client.request("PUT", "/v1/conversations", {})
        assert (gone.status, gone.headers["allow"]) == (405, "GET, POST")
        assert await client.status("GET", f"/v1/conversations/{row['id']}/events", Accept="image/png") == (406, "not_acceptable")
        bad = await client.request("GET", f"/v1/conversations/{row['id']}/events?stream=1", headers={"Last-Event-ID": "x"})
        assert bad.status == 400
