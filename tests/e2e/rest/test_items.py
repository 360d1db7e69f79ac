"""`…/items`: the same conversation as items, live, from any place, and as a page."""

from pathlib import Path
from typing import Any

from tests.support.http_server import Json
from tests.support.rest_client import RestClient, Stream, serving_rest
from understudy.testing import HOLD, Answer, ScriptedModel, call, deltas, say

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"
ANSWERS = (
    Answer((*deltas(["Let me", " look."]).parts, *call("shell", command=["sh", "-c", "echo hi; exit 3"]).parts)),
    call("apply_patch", input=PATCH),
    call("apply_patch", input=PATCH.replace("Add File: a", "Delete File: nowhere").replace("\n+x", "")),
    say("Done."),
)
FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}


async def watch(client: RestClient, conversation: str, last_event_id: str | None = None) -> Stream:
    headers = {"Accept": "text/event-stream"} | ({} if last_event_id is None else {"Last-Event-ID": last_event_id})
    response = await client.request("GET", f"/v1/conversations/{conversation}/items", headers=headers)
    assert response.status == 200, await response.body()
    return Stream(response)


def as_told(stream: Stream) -> dict[str, Json]:
    """The items as somebody has them who has put the updates together."""
    items: dict[str, Json] = {}
    for event in stream.seen:
        data = event["data"]
        if "item" in data:
            items[data["item"]["id"]] = data["item"]
        elif "grew" in data:
            item = items[data["grew"]["id"]]
            key = "output" if item["kind"] == "command" else "text"
            items[item["id"]] = {**item, key: item.get(key, "") + data["grew"]["text"]}
    return items


def is_end(data: Json) -> bool:
    return data.get("item", {}).get("kind") == "turn_end"


async def test_a_stream_and_a_page_tell_of_the_same_items(tmp_path: Path) -> None:
    async with ScriptedModel(ANSWERS) as model, serving_rest(tmp_path, model, config=FREE) as (server, client):
        row = await client.create(server.cwd, "Do it")
        stream = await watch(client, row["id"])
        await stream.until_it(is_end)
        page = await client.get(f"/v1/conversations/{row['id']}/items")
        live = as_told(stream)
        kinds = [item["kind"] for item in page["items"]]
        assert kinds == [
            "user_message",
            "message",
            "command",
            "patch",
            "patch",
            "message",
            "turn_end",
        ]
        assert list(live.values()) == page["items"]
        user, look, command, added, deleted, done, end = page["items"]
        assert (user["text"], look["text"], done["text"]) == ("Do it", "Let me look.", "Done.")
        told = (command["argv"][-1], command["output"], command["exit_code"], command["status"])
        assert told == (
            "echo hi; exit 3",
            "hi\n",
            3,
            "failed",
        )
        assert (added["files"][0]["change"], added["status"]) == ("add", "done")
        assert (deleted["status"], "nowhere" in deleted["error"]) == ("failed", True), deleted
        assert (end["status"], end["text"]) == ("done", "Done.")
        assert [each["path"] for each in end["report"]["files"]] == [str(server.cwd / "a.txt")]


async def test_whoever_comes_back_in_the_middle_of_an_answer_gets_exactly_the_rest(tmp_path: Path) -> None:
    answers = [deltas(["one ", "two ", HOLD, "three"])]
    async with ScriptedModel(answers) as model, serving_rest(tmp_path, model, config=FREE) as (server, client):
        row = await client.create(server.cwd, "Count")
        first = await watch(client, row["id"])
        await first.until_it(lambda data: "two" in str(data))
        first.close()
        second = await watch(client, row["id"], first.last_id)
        model.release()
        await second.until_it(is_end)
        first.seen += second.seen
        page = await client.get(f"/v1/conversations/{row['id']}/items")
        grown = [event["data"]["grew"]["text"] for event in first.seen if "grew" in event["data"]]
        begun = next(
            event["data"]["item"]["text"] for event in first.seen if event["data"].get("item", {}).get("kind") == "message"
        )
        assert "".join([begun, *grown]) == "one two three"
        assert list(as_told(first).values()) == page["items"]


async def test_a_question_is_an_item_until_it_is_answered(tmp_path: Path) -> None:
    asking: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "read-only"}
    escalated = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
    async with ScriptedModel([escalated, say("Made.")]) as model, serving_rest(tmp_path, model, config=asking) as (server, client):
        row = await client.create(server.cwd, "Make it")
        stream = await watch(client, row["id"])
        asked = (await stream.until_it(lambda data: data.get("item", {}).get("kind") == "question"))["item"]
        assert (asked["status"], asked["asked"]["command"]) == ("running", ["touch", "made"])
        answer = {"call_id": asked["asked"]["call_id"], "decision": "approved", "mark": asked["asked"]["mark"]}
        await client.post(f"/v1/conversations/{row['id']}/decisions", answer)
        await stream.until_it(is_end)
        items = as_told(stream)
        assert (items[asked["id"]]["status"], items[asked["id"]]["decision"]) == ("done", "approved")
        command = next(item for item in items.values() if item["kind"] == "command")
        assert (command["outside"], command["status"]) == (True, "done")
