"""The OpenAPI document, made from the table that serves requests and from the shapes that are sent."""

import re
from functools import cache
from typing import Any

import msgspec

from understudy import __version__
from understudy.servers.items.shapes import Update
from understudy.servers.rest.failures import Failure
from understudy.servers.rest.routes import ROUTES, TAGS, Route

_REF = "#/components/schemas/{name}"
_ALWAYS = {
    400: "What was sent is not what is taken here",
    401: "A token is needed",
    403: "Not allowed with this token, or from this page",
    421: "The server is not known by this Host",
    429: "Too many requests",
    500: "A mistake of the server's, which its log describes",
    503: "The server is about to end, or its store cannot be used",
}


@cache
def openapi_document() -> bytes:
    kinds = [kind for route in ROUTES for kind in (route.answer, route.query, route.body) if kind is not None]
    described = [*dict.fromkeys(kinds), Failure, Update]  # `Update` is the content of each event in a stream of items
    schemas, components = msgspec.json.schema_components(described, ref_template=_REF)
    by_kind = dict(zip(described, schemas, strict=True))
    queries = {by_kind[route.query]["$ref"].rpartition("/")[2] for route in ROUTES if route.query is not None}
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind, components)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "understudy",
            "version": __version__,
            "description": "Conversations with a coding agent: begin them, watch them, answer their questions.",
        },
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token of `understudy token add`"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "understudy", "description": "Of a browser that is logged in"},
            },
        },
    }
    return msgspec.json.encode(document)


def _operation(route: Route, by_kind: dict[type[Any], Any], components: dict[str, Any]) -> dict[str, Any]:
    named = re.findall(r"\{(\w+)\}", route.path)
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named],
        "responses": {str(route.status): {"description": "Done", "content": _content(route, by_kind)}},
    }
    if route.query is not None:
        operation["parameters"] += _query(components[by_kind[route.query]["$ref"].rpartition("/")[2]])
    if route.streams:
        header = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
        operation["parameters"].append(header | {"description": "The id of the last event that was received"})
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": by_kind[route.body]}}}
    wrong = dict(_ALWAYS)
    if named:
        wrong[404] = "There is none, or it is another caller's"
    if route.method != "GET":
        wrong |= {
            408: "The body did not come in time",
            413: "The body is too large",
            409: "Does not fit to how things stand; `error` says how they do",
        }
        wrong[502] = "The model cannot be asked"
    if route.body is not None:
        wrong[415] = "The body should be JSON"
    if route.streams:
        wrong[406] = "Nothing that is accepted can be sent"
    for status, description in sorted(wrong.items()):
        failure = {"application/json": {"schema": by_kind[Failure]}}
        operation["responses"][str(status)] = {"description": description, "content": failure}
    return operation


def _content(route: Route, by_kind: dict[type[Any], Any]) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {} for kind in route.kinds}
    if route.answer is not None:
        content["application/json"] = {"schema": by_kind[route.answer]}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return content


def _query(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": described}
        for name, described in schema["properties"].items()
    ]
