"""Writes the TypeScript client from the OpenAPI document, into dist/typescript or a folder that is named.

What does not follow from the document (requests, streams, how it is built) is in packaging/typescript, and is copied.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from understudy import __version__  # noqa: E402
from understudy.servers.rest.openapi import openapi_document  # noqa: E402

BY_HAND = ROOT / "packaging" / "typescript"
MADE = "// Made by scripts/typescript_client.py from the OpenAPI document. Changes belong there.\n"
STREAMED = {"items": "Update", "events": "Event"}  # what each event of a stream holds, where it is one of the schemas
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
NAME = re.compile(r"[A-Za-z_]\w*")

Schema = Mapping[str, Any]


def write(folder: Path) -> None:
    document = json.loads(openapi_document())
    shutil.copytree(BY_HAND, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
    package = json.loads((folder / "package.json").read_text())
    (folder / "package.json").write_text(json.dumps({**package, "version": __version__}, indent=2) + "\n")
    (folder / "src" / "schema.ts").write_text(MADE + "\n".join(schema_lines(document["components"]["schemas"])) + "\n")
    (folder / "src" / "index.ts").write_text(MADE + "\n".join(client_lines(document)) + "\n")


# -- types


def schema_lines(schemas: Mapping[str, Schema]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield ""
        yield from _comment(schema.get("description"), "")
        if schema.get("type") == "object" and "properties" in schema:
            yield f"export interface {name} {{"
            required = set(schema.get("required", ()))
            for member, kind in schema["properties"].items():
                yield from _comment(_about(kind), "  ")
                yield f"  {_member(member)}{'' if member in required else '?'}: {typed(kind)};"
            yield "}"
        else:
            yield f"export type {name} = {typed(schema)};"


def typed(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(typed(each) for each in schema["anyOf"]))
    match schema.get("type"):
        case "array":
            return f"ReadonlyArray<{typed(schema.get('items', {}))}>"
        case "object":
            inner = schema.get("additionalProperties")
            return f"Readonly<Record<string, {typed(inner) if isinstance(inner, dict) else 'unknown'}>>"
        case str(plain):
            return PLAIN[plain]
        case _:
            return "unknown"


def _member(name: str) -> str:
    return name if NAME.fullmatch(name) else json.dumps(name)


def _about(schema: Schema) -> str | None:
    return schema.get("description") or next(
        (each["description"] for each in schema.get("anyOf", ()) if "description" in each), None
    )


def _comment(text: str | None, indent: str) -> Iterator[str]:
    if text:
        yield f"{indent}/** {' '.join(text.split()).replace('*/', '* /')} */"


# -- the client


def client_lines(document: Schema) -> Iterator[str]:
    operations = [(path, method, each) for path, methods in document["paths"].items() for method, each in methods.items()]
    methods = [line for path, method, each in operations for line in _methods(path, method, each)]
    used = sorted(set(re.findall(r"schema\.(\w+)", "\n".join(methods))))
    yield 'import { Transport, type Call, type Options } from "./transport.js";'
    yield f'import type {{ {", ".join(used)} }} from "./schema.js";'
    yield ""
    yield 'export * from "./schema.js";'
    yield 'export { UnderstudyError, type Options } from "./transport.js";'
    yield ""
    yield 'type Signal = Pick<Call, "signal">;'
    yield "const part = (value: string | number) => encodeURIComponent(String(value));"
    yield ""
    yield "/** A running `understudy serve`. */"
    yield "export class Understudy {"
    yield "  readonly #transport: Transport;"
    yield ""
    yield "  constructor(options: Options) {"
    yield "    this.#transport = new Transport(options);"
    yield "  }"
    yield from (line.replace("schema.", "") for line in methods)
    yield "}"


def _methods(path: str, method: str, operation: Schema) -> Iterator[str]:
    """One for its answer, and one for its stream where it has one."""
    name = _camel(operation["operationId"])
    content = {
        kind: each
        for code, answer in operation["responses"].items()
        if code.startswith("2")
        for kind, each in answer.get("content", {}).items()
    }
    streams = "text/event-stream" in content
    plain = [kind for kind in content if kind != "text/event-stream"]
    if plain:
        yield from _method(name, path, method, operation, content, plain)
    if streams:
        stream_name = f"stream{name[0].upper()}{name[1:]}" if plain else name
        each = f"schema.{STREAMED[operation['operationId']]}" if operation["operationId"] in STREAMED else "unknown"
        yield from _head(operation, f"{operation['summary']} (as they happen)")
        given, call = _arguments(path, operation, leave_out=("stream", "limit", "before"))
        query = call.replace("query,", "query: { ...query, stream: true },")
        yield f"  {stream_name}({given}): AsyncGenerator<{each}, void, undefined> {{"
        yield f"    return this.#transport.stream<{each}>({_address(path)}, {query});"
        yield "  }"


def _method(name: str, path: str, method: str, operation: Schema, content: Mapping[str, Schema], kinds: list[str]) -> Iterator[str]:
    yield from _head(operation, operation["summary"])
    given, call = _arguments(path, operation, leave_out=("stream", "answers"))
    if kinds == ["application/json"]:
        result, how = _named(content["application/json"]["schema"]), "json"
    elif all(kind.startswith("image/") for kind in kinds):
        result, how = "Uint8Array", "bytes"
    else:
        result, how = "string", "text"
    accept = "" if how == "json" else f", accept: {json.dumps(', '.join(kinds))}"
    kind = f"<{result}>" if how == "json" else ""
    yield f"  async {name}({given}): Promise<{result}> {{"
    handed = call.replace(" }", f"{accept} }}")
    yield f"    return await this.#transport.{how}{kind}({json.dumps(method.upper())}, {_address(path)}, {handed});"
    yield "  }"


def _head(operation: Schema, about: str) -> Iterator[str]:
    yield ""
    yield f"  /** {operation['tags'][0]}: {about}. */"


def _arguments(path: str, operation: Schema, leave_out: tuple[str, ...]) -> tuple[str, str]:
    """The parameters of the method, and what it hands on."""
    given = [f"{name}: string" for name in re.findall(r"{(\w+)}", path)]
    handed = ["signal"]
    if "requestBody" in operation:
        body = operation["requestBody"]
        given.append(
            f"body: {_named(body['content']['application/json']['schema'])}" + ("" if body.get("required", True) else " = {}")
        )
        handed.insert(0, "body")
    queries = [each for each in operation.get("parameters", ()) if each["in"] == "query" and each["name"] not in leave_out]
    if queries:
        members = "; ".join(f"{each['name']}{'' if each.get('required') else '?'}: {typed(each['schema'])}" for each in queries)
        optional = not any(each.get("required") for each in queries)
        given.append(f"query: {{ {members} }}" + (" = {}" if optional else ""))
        handed.insert(0, "query")
    given.append("{ signal }: Signal = {}")
    return ", ".join(given), "{ " + ", ".join(handed) + " }"


def _named(schema: Schema) -> str:
    return f"schema.{typed(schema)}" if "$ref" in schema else typed(schema)


def _address(path: str) -> str:
    return "`" + re.sub(r"{(\w+)}", r"${part(\1)}", path) + "`"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "typescript"
    write(target)
    print(f"{target}: npm install && npm run build")
