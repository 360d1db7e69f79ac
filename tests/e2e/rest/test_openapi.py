"""The OpenAPI document: well-formed, complete, and true of what the server answers."""

from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.http_server import Json
from tests.support.rest_client import RestClient, serving_rest
from understudy.servers.rest.routes import ROUTES
from understudy.testing import ScriptedModel, say


def refs(value: Any) -> list[str]:
    match value:
        case {"$ref": str(ref)}:
            return [ref]
        case dict():
            return [ref for each in cast(Json, value).values() for ref in refs(each)]
        case list():
            return [ref for each in cast(list[Any], value) for ref in refs(each)]
        case _:
            return []


async def test_the_document_has_every_route_and_nothing_that_it_does_not_define(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, _):
        document = await RestClient(server.port).get("/openapi.json")  # without a token
        assert document["openapi"].startswith("3.1")
        told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
        assert told == {(route.method, route.path) for route in ROUTES}
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(refs(document)) <= known
        operations = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
        assert len(operations) == len(set(operations))
        for path, methods in document["paths"].items():
            for operation in methods.values():
                assert operation["tags"][0] in {tag["name"] for tag in document["tags"]}
                named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
                assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for schema in document["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
async def test_a_validator_of_the_specification_finds_nothing_wrong_with_the_document(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, _):
        document = await RestClient(server.port).get("/openapi.json")
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    document["info"] = {}
    assert next(OpenAPIV31SpecValidator(document).iter_errors(), None) is not None, "it does not look"


@pytest.mark.slow
async def test_what_the_server_answers_is_what_the_document_says(tmp_path: Path) -> None:
    async with ScriptedModel([say("Yes.")]) as model, serving_rest(tmp_path, model) as (server, client):
        document = await client.get("/openapi.json")
        row = await client.create(server.cwd, "Do it")
        await (await client.stream(row["id"])).until("task_complete")

        async def check(method: str, path: str, body: Any = None) -> None:
            response = await client.request(method, path.replace("{id}", row["id"]), body)
            described = document["paths"][path.partition("?")[0]][method.lower()]["responses"][str(response.status)]
            schema = {**described["content"]["application/json"]["schema"], "components": document["components"]}
            jsonschema.validate(await response.json(), schema)

        for path in ("/v1/me", "/v1/conversations", "/v1/conversations/{id}", "/v1/conversations/{id}/events?limit=5"):
            await check("GET", path)
        await check("GET", "/v1/conversations/{id}/diff")
        await check("GET", "/v1/conversations/{id}/report")
        await check("POST", "/v1/conversations/{id}/interrupt")
        await check("POST", "/v1/conversations/{id}/rename", {"title": "New"})
        await check("POST", "/v1/conversations/{id}/rename", {"titel": "New"})
        await check("POST", "/v1/conversations/{id}/decisions", {"call_id": "x", "decision": "approved"})
        await check("POST", "/v1/conversations/{id}/fork", {})
        await check("POST", "/v1/conversations/{id}/archive")
        await check("DELETE", "/v1/conversations/{id}")
        await check("GET", "/v1/conversations/{id}")
