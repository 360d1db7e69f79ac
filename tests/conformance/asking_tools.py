"""Tools that ask the client: by requests in the era with sessions, by their results in the one without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.conformance.offered import Json, Tools, ask, properties, result, text
from understudy.config.home import state_dir
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.rounds import AskedAgain
from understudy.servers.mcp.task_board import LoneClient
from understudy.servers.sealing import IdSeal

TOOLS = Tools()


def form(message: str, **members: Json) -> Json:
    schema = {"type": "object", "properties": members, "required": list(members)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(prompt: str, most: int = 100) -> Json:
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": most}}


TEXT: Json = {"type": "string"}
NAME = form("What is your name?", name=TEXT)
ROOTS: Json = {"method": "roots/list", "params": {}}


# -- by requests


@TOOLS.add("test_sampling", "Asks the client's model", properties("prompt"))
async def sampling(call: Call) -> Any:
    answer = await ask(call, **sample(call.arguments["prompt"]))
    return result(text(f"LLM response: {answer['content']['text']}"))


async def _elicit(call: Call, words: str, message: str, schema: Json) -> Any:
    answer = await ask(call, "elicitation/create", {"message": message, "requestedSchema": schema})
    return result(text(f"{words}: action={answer['action']}, content={json.dumps(answer.get('content'))}"))


@TOOLS.add("test_elicitation", "Asks the user", properties("message"))
async def elicitation(call: Call) -> Any:
    schema = properties(
        "username",
        "email",
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await _elicit(call, "User response", call.arguments["message"], schema)


@TOOLS.add("test_elicitation_sep1034_defaults", "Asks the user, with defaults")
async def elicitation_defaults(call: Call) -> Any:
    members: Json = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(call, "Elicitation completed", "Please check", properties(**members))


@TOOLS.add("test_elicitation_sep1330_enums", "Asks the user to choose")
async def elicitation_enums(call: Call) -> Any:
    plain = ["option1", "option2", "option3"]

    def titled(word: str) -> list[Json]:
        return [
            {"const": f"value{number}", "title": f"{order} {word}"} for number, order in enumerate(("First", "Second", "Third"), 1)
        ]

    members: Json = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }
    return await _elicit(call, "Elicitation completed", "Please choose", properties(**members))


# -- by results


def asked_of(call: Call) -> AskedAgain:
    asked = call.client.asked if isinstance(call.client, LoneClient) else None
    return asked or AskedAgain("")


def input_required(requests: Mapping[str, Json], state: str | None = None) -> Json:
    more = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", "inputRequests": dict(requests), **more}


def accepted(answers: Mapping[str, Any], key: str, member: str) -> Any:
    """What a form was filled in with; None where it was not."""
    match answers.get(key):
        case {"action": "accept", "content": {**content}}:
            return content.get(member)
        case _:
            return None


def seal_of(call: Call) -> IdSeal:
    return IdSeal(state_dir(call.client.engine.home), b"conformance")


def check_state(call: Call) -> str | None:
    """Of the round before. Raises `InvalidParams` for one that is not ours."""
    state = asked_of(call).request_state
    if state is None:
        return None
    opened = seal_of(call).open(state)
    if opened is None:
        raise InvalidParams("`requestState` is not valid for this call")
    return opened.decode()


@TOOLS.add("test_input_required_result_elicitation", "Asks for a name")
async def input_elicitation(call: Call) -> Any:
    name = accepted(asked_of(call).input_responses, "user_name", "name")
    return result(text(f"Hello, {name}!")) if isinstance(name, str) else input_required({"user_name": NAME})


@TOOLS.add("test_streaming_elicitation", "Asks for a name")
async def streaming_elicitation(call: Call) -> Any:
    return await input_elicitation(call)


@TOOLS.add("test_input_required_result_sampling", "Asks the client's model")
async def input_sampling(call: Call) -> Any:
    match asked_of(call).input_responses.get("capital_question"):
        case {"content": {"text": answer}}:
            return result(text(f"The model says: {answer}"))
        case _:
            return input_required({"capital_question": sample("What is the capital of France?")})


@TOOLS.add("test_input_required_result_list_roots", "Asks for the client's folders")
async def input_roots(call: Call) -> Any:
    match asked_of(call).input_responses.get("client_roots"):
        case {"roots": roots}:
            return result(text(f"Roots: {json.dumps(roots)}"))
        case _:
            return input_required({"client_roots": ROOTS})


@TOOLS.add("test_input_required_result_request_state", "Asks, and recognises its own state")
async def input_state(call: Call) -> Any:
    if check_state(call) == "confirm" and "confirm" in asked_of(call).input_responses:
        return result(text("state-ok"))
    return input_required({"confirm": form("Please confirm", ok={"type": "boolean"})}, seal_of(call).close(b"confirm"))


@TOOLS.add("test_input_required_result_tampered_state", "Asks, and refuses a state that was changed")
async def input_tampered(call: Call) -> Any:
    return await input_state(call)


@TOOLS.add("test_input_required_result_multiple_inputs", "Asks for three things at once")
async def input_multiple(call: Call) -> Any:
    requests = {"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}
    if check_state(call) == "multiple" and requests.keys() <= asked_of(call).input_responses.keys():
        return result(text("Thank you for all three."))
    return input_required(requests, seal_of(call).close(b"multiple"))


@TOOLS.add("test_input_required_result_multi_round", "Asks twice")
async def input_rounds(call: Call) -> Any:
    state, answers = check_state(call) or "", asked_of(call).input_responses
    color = accepted(answers, "step2", "color")
    if state.startswith("step2 ") and color is not None:
        return result(text(f"{state.removeprefix('step2 ')} likes {color}."))
    name = accepted(answers, "step1", "name")
    if state == "step1" and name is not None:
        request = form("Step 2: What is your favorite color?", color=TEXT)
        return input_required({"step2": request}, seal_of(call).close(f"step2 {name}".encode()))
    return input_required({"step1": form("Step 1: What is your name?", name=TEXT)}, seal_of(call).close(b"step1"))


@TOOLS.add("test_input_required_result_capabilities", "Asks only what the client can be asked")
async def input_capabilities(call: Call) -> Any:
    every = {"elicitation": ("user_name", NAME), "sampling": ("greeting", sample("Generate a greeting")), "roots": ("roots", ROOTS)}
    return input_required(dict(every[kind] for kind in every if kind in call.client.capabilities))
