"""Checks a JSON schema, or an answer against one, in a process of its own. Run by `schema`, never imported by it.

A schema may come from anywhere, and checking one can take for ever: a pattern that backtracks, references that double with every
level. A process can be limited and killed while the server continues. It is started with an empty environment.
"""

import json
import resource
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

CPU_SECONDS = 5
MEMORY = 1024 * 1024 * 1024
MOST_PROBLEMS = 5
LONGEST = 300  # characters of one problem
VALUES = frozenset({"const", "enum", "default", "examples", "example"})  # keys whose value is not a schema


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    job = json.load(sys.stdin)
    try:
        problems = list(islice(_problems(job["schema"], job), MOST_PROBLEMS))
    except RecursionError:
        problems = ["it refers to itself without end"]
    except Unresolvable as error:  # through a reference that the first search did not see
        problems = [f"the reference {error.ref!r} leads nowhere"]
    json.dump([problem if len(problem) <= LONGEST else problem[:LONGEST] + "…" for problem in problems], sys.stdout)


def _problems(schema: Any, job: dict[str, Any]) -> Iterator[str]:
    kind = validator_for(schema, default=Draft202012Validator)
    registry: Registry[Any] = Registry(retrieve=_not_fetched)
    if "answer" not in job:
        yield from _schema_problems(schema, kind, registry)
        return
    for error in kind(schema, registry=registry).iter_errors(job["answer"]):
        yield _told(error)


def _schema_problems(schema: Any, kind: Any, registry: "Registry[Any]") -> Iterator[str]:
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        yield _told(error)
        return
    specification = specification_with(kind.META_SCHEMA.get("$schema", ""), default=DRAFT202012)
    resolver = registry.resolver_with_root(Resource(contents=schema, specification=specification))
    for reference, is_top in _references(schema):
        if not reference.startswith("#"):
            yield f"`$ref` {reference!r} leads to another document: only references within the schema (#/…) are followed"
            return
        elif is_top:  # below another `$id` it would have to be resolved differently
            try:
                resolver.lookup(reference)
            except Unresolvable:
                yield f"`$ref` {reference!r} leads nowhere"
                return
    kind(schema, registry=registry).is_valid({})  # a schema with endless self-reference fails for any answer


def _references(node: Any, is_top: bool = True) -> Iterator[tuple[str, bool]]:
    if isinstance(node, list):
        for item in cast(list[Any], node):
            yield from _references(item, is_top)
    elif isinstance(node, dict):
        table = cast(dict[str, Any], node)
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(reference := table.get(key), str):
                yield reference, is_top
        for key, value in table.items():
            if key not in VALUES:
                yield from _references(value, is_top and not (isinstance(value, dict) and "$id" in value))


def _not_fetched(uri: str) -> Any:
    raise NoSuchResource(ref=uri)


def _told(error: ValidationError | SchemaError) -> str:
    return f"at {error.json_path}: {error.message}"


if __name__ == "__main__":
    main()
