"""PyPI `openai-codex` runs threads by a program named `codex`: argv is the task as JSON."""

import importlib
import json
import sys
from typing import Any

sdk: Any = importlib.import_module("openai_codex")  # of this script's environment, not of the one that checks its types
low: Any = importlib.import_module("openai_codex.client")

task = json.loads(sys.argv[1])
config = sdk.CodexConfig(
    codex_bin=task["codex"],
    config_overrides=('model="gpt-5.5"', f'openai_base_url="{task["url"]}"'),
    cwd=task["cwd"],
    env=task["env"],
)
seen: dict[str, Any] = {}


def main() -> None:
    with sdk.Codex(config) as codex:
        codex.login_api_key("sk-of-a-test")
        seen["account"] = codex.account().model_dump(mode="json", by_alias=True)
        seen["models"] = [model.id for model in codex.models().data]
        thread = codex.thread_start(cwd=task["cwd"], sandbox=sdk.Sandbox.workspace_write, approval_mode=sdk.ApprovalMode.deny_all)
        first = thread.run("first")
        seen["first"] = {
            "answer": first.final_response,
            "items": [item.model_dump(mode="json", by_alias=True) for item in first.items],
            "usage": first.usage.model_dump(mode="json", by_alias=True),
        }
        image = sdk.LocalImageInput(task["image"])
        parts = [sdk.TextInput("second"), sdk.TextInput("part"), image, image]
        seen["second"] = thread.run(parts, output_schema=task["schema"]).final_response
        seen["third"] = [note.method for note in thread.turn("third", cwd=task["more"]).stream()]
        try:
            seen["fourth"] = repr(thread.run("fourth"))
        except Exception as error:
            seen["failure"] = str(error)
        seen["id"] = thread.id
        seen["aborted"] = abort(codex)
    with sdk.Codex(config) as codex:
        again = codex.thread_resume(seen["id"], cwd=task["cwd"])
        seen["resumed"] = again.run("sixth").final_response
        seen["turns"] = len(again.read(include_turns=True).thread.turns)
        fork = codex.thread_fork(again.id)
        seen["forked"] = fork.run("seventh").final_response
        again.set_name("a name")
        seen["named"] = [row.name for row in codex.thread_list().data if row.id == again.id]
        seen["listed"] = [row.id for row in codex.thread_list().data]
        codex.thread_archive(fork.id)
        seen["archived"] = [row.id for row in codex.thread_list(archived=True).data]
        codex.thread_unarchive(fork.id)
        seen["fork"] = fork.id
        approve()
        codex.logout()
        seen["afterwards"] = codex.account().model_dump(mode="json", by_alias=True)["account"]
    print(json.dumps(seen, default=str))


def abort(codex: Any) -> str:
    thread = codex.thread_start(cwd=task["cwd"], sandbox=sdk.Sandbox.full_access, approval_mode=sdk.ApprovalMode.deny_all)
    turn = thread.turn("fifth")
    for note in turn.stream():
        if note.method == "item/started" and note.payload.item.root.type == "commandExecution":
            turn.steer("a word meanwhile")
            turn.interrupt()
        if note.method == "turn/completed":
            return str(note.payload.turn.status.value)
    return "not at all"


def approve() -> None:
    """The client below the public one takes a handler of questions."""
    asked: list[Any] = []

    def decide(method: str, params: Any) -> Any:
        asked.append([method, params.get("command")])
        return {"decision": "accept" if len(asked) == 1 else "decline"}

    client = low.CodexClient(config, approval_handler=decide)
    client.start()
    client.initialize()
    thread = client.thread_start({"cwd": task["cwd"], "approvalPolicy": "untrusted", "sandbox": "workspace-write"}).thread
    turn = client.turn_start(thread.id, "eighth").turn
    seen["approved"] = str(client.wait_for_turn_completed(turn.id).turn.status.value)
    seen["asked"] = asked
    client.close()


main()
