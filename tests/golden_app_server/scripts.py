"""What the scripted model said in each recording. The recordings hold what was asked, not what was answered."""

import json
from typing import Any

Json = dict[str, Any]

USAGE: Json = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 7},
    "total_tokens": 120,
}
SMALL_USAGE: Json = {
    "input_tokens": 42,
    "input_tokens_details": {"cached_tokens": 12},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 47,
}


def answer(*parts: list[Json], usage: Json = USAGE) -> Json:
    completed = {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}
    events = [{"type": "response.created", "response": {"id": "resp_1"}}, *(event for part in parts for event in part), completed]
    return {"events": events}


def said(*pieces: str, phase: str | None = None) -> list[Json]:
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    done = {**item, "content": [{"type": "output_text", "text": "".join(pieces)}], **({"phase": phase} if phase else {})}
    deltas = [
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece}
        for piece in pieces
    ]
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    return [added, *deltas, {"type": "response.output_item.done", "output_index": 0, "item": done}]


def thought(text: str) -> list[Json]:
    item: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
    done = {**item, "summary": [{"type": "summary_text", "text": text}]}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": text},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]


def called(name: str, call_id: str, **arguments: Any) -> list[Json]:
    item: Json = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return [{"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": json.dumps(arguments)}}]


def shell(call_id: str, line: str, **more: Any) -> list[Json]:
    return called("shell", call_id, command=["/bin/bash", "-lc", line], **more)


def asked_for(call_id: str, line: str) -> list[Json]:
    return shell(call_id, line, with_escalated_permissions=True, justification="need it")


def patch(call_id: str, *lines: str) -> list[Json]:
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])
    item = {"type": "custom_tool_call", "id": f"ct_{call_id}", "call_id": call_id, "name": "apply_patch", "input": text}
    return [{"type": "response.output_item.done", "output_index": 0, "item": item}]


def searched() -> list[Json]:
    item: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    return [{"type": "response.output_item.done", "output_index": 0, "item": item}]


def refused(status: int, body: str) -> Json:
    return {"status": status, "body": body}


CUT: Json = {"events": [{"type": "response.created", "response": {"id": "resp_1"}}]}  # and the stream ends

SCRIPTS: dict[str, list[Json]] = {
    "account": [answer(said("with key"))],
    "command_approvals": [
        answer(asked_for("c1", "touch one")),
        answer(asked_for("c2", "touch two")),
        answer(asked_for("c3", "touch three")),
        answer(asked_for("c4", "touch three")),
        answer(asked_for("c5", "touch four")),
        answer(asked_for("c6", "touch five")),
        answer(said("never asked")),
    ],
    "editor_acp": [
        answer(
            said("Let me look.", phase="commentary"),
            shell("call_1", "echo hi", with_escalated_permissions=True, justification="because"),
        ),
        answer(patch("call_2", "*** Add File: new.txt", "+one")),
        answer(said("done")),
        answer(said('{"title": "A title"}')),
    ],
    "eof_busy": [answer(shell("call_1", "sleep 3; touch late"))],
    "failures": [
        refused(400, '{"error":{"message":"bad thing"}}'),
        CUT,
        answer(said("second try")),
        CUT,
        CUT,
        refused(401, '{"error":{"message":"Incorrect API key"}}'),
        refused(400, '{"error":{"message":"too long","code":"context_length_exceeded"}}'),
        answer(said("fine again")),
    ],
    "handshake": [],
    "inputs": [
        answer(said("seen")),
        answer(said('{"answer":"x"}')),
        answer(shell("call_1", "pwd; touch w")),
        answer(said("ok")),
        answer(said("sticky")),
    ],
    "interrupt": [answer(shell("call_1", "echo started; sleep 30")), answer(said("after"))],
    "items": [
        answer(thought("**Look**"), said("Let me look.", phase="commentary"), shell("call_1", "echo one; sleep 0.4; echo two >&2")),
        answer(shell("call_2", "exit 3")),
        answer(
            called(
                "update_plan",
                "call_3",
                plan=[{"step": "look", "status": "completed"}, {"step": "write", "status": "pending"}],
                explanation="why",
            )
        ),
        answer(called("mcp__tiny__ok", "call_4", s="x")),
        answer(called("mcp__tiny__fails", "call_5")),
        answer(searched(), said("All done.", phase="final_answer")),
    ],
    "patch_approvals": [
        answer(patch("c1", "*** Add File: one.txt", "+1")),
        answer(patch("c2", "*** Add File: two.txt", "+2")),
        answer(patch("c3", "*** Add File: three.txt", "+3")),
        answer(said("not reached")),
    ],
    "patch_items": [
        answer(
            patch(
                "call_1",
                "*** Add File: new.txt",
                "+one",
                "*** Update File: a.txt",
                "*** Move to: c.txt",
                "@@",
                "-old",
                "+new",
                "*** Delete File: b.txt",
            )
        ),
        answer(patch("call_2", "*** Update File: nope.txt", "@@", "-x", "+y")),
        answer(said("patched")),
    ],
    "python_run": [answer(said("Hi!"), usage=SMALL_USAGE)],
    "python_twice": [answer(said(word), usage=SMALL_USAGE) for word in ("one", "two", "three")],
    "startup": [],
    "steer": [answer(shell("call_1", "sleep 1.5; echo slept")), answer(said("heard both")), answer(said("heard the other"))],
    "threads": [answer(said(word)) for word in ("one", "two", "three", "four")],
    "turn_plain": [answer(said("Hel", "lo ", "you")), answer(said("second"))],
}
