"""Conversations of others: every address of the table answers exactly as if there were none."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.rest_client import RestClient, serving_rest
from understudy.servers.rest.acting import NewAnswer, NewDecision, NewMessage
from understudy.servers.rest.managing import ForkWanted, RenameWanted, UndoWanted
from understudy.servers.rest.routes import ROUTES, Route
from understudy.testing import HOLD, ScriptedModel, deltas

UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"
OF_ONE = [route for route in ROUTES if "{id}" in route.path]
BODIES: dict[type[Any], list[Any]] = {  # those that would be taken from its owner, and some that would not
    NewMessage: [
        {"text": "Hi"},
        {"text": "Hi", "mode": "steer"},
        {"text": "Hi", "folder": "/"},
        {"text": "Hi", "images": ["/etc/hosts"]},
    ],
    NewDecision: [{"call_id": "x", "decision": "approved"}],
    NewAnswer: [{"call_id": "x", "answers": {"why": "so"}}, {"call_id": "x", "answers": {}}],
    UndoWanted: [{}, {"turn": "1"}],
    ForkWanted: [{}, {"turn": "1"}, {"message": UNKNOWN}],
    RenameWanted: [{"title": "Mine"}, {"title": ""}],
}
NONSENSE = {"nonsense": 1}
QUERIES = {
    "events": ["", "?stream=1", "?stream=1&answers=0", "?after=1"],
    "items": ["", "?stream=1", "?after=1"],
    "diff": ["", "?turn=1"],
    "report": ["", "?turn=1"],
    "export": ["", "?format=markdown", "?format=html"],
}


def attempts(route: Route) -> list[tuple[str, Any]]:
    """Ends of the address, and bodies. A new shape of a body is an error here until it has some."""
    queries = QUERIES.get(route.path.rpartition("/")[2], [""])
    bodies = [None] if route.body is None else [*BODIES[route.body], NONSENSE]
    return [(query, body) for query in queries for body in bodies]


@pytest.mark.slow
async def test_every_address_answers_strangers_byte_for_byte_as_if_there_were_no_such_conversation(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["Secret", HOLD])]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Private")
        stream = await client.stream(row["id"])
        await stream.until("agent_message_content_delta")
        ann = RestClient(server.port, await server.add_token("ann"))
        before = await client.get(f"/v1/conversations/{row['id']}")
        for route in OF_ONE:
            for query, body in attempts(route):
                answers: list[tuple[int, dict[str, str], bytes]] = []
                for conversation in (row["id"], UNKNOWN, row["id"].upper(), "no-uuid"):
                    path = route.path.replace("{id}", conversation).replace("{seq}", "2").replace("{number}", "0")
                    response = await ann.request(route.method, path + query, body)
                    answers.append((response.status, response.headers, await response.body()))
                assert all(answer == answers[0] for answer in answers), (route.path, query, body)
                assert answers[0][0] == (400 if body == NONSENSE else 404), (route.path, query, body)
                assert row["id"].encode() not in answers[0][2]
        assert (await ann.get("/v1/conversations"))["conversations"] == []
        assert await client.get(f"/v1/conversations/{row['id']}") == before
        model.release()
        await stream.until("task_complete")
