"""What a person is asked by the real server, in both eras of the protocol: true, complete, the model's words last and marked."""

from typing import Any

import pytest

from tests.security.house import Attack, House, attacks, besieged, house, patch, script, shell, told

OLD, NEW = "2025-06-18", "2025-11-25"
OUTSIDE = "If approved it runs outside the sandbox, with all rights of the account that runs understudy."
NO_SANDBOX = "There is no sandbox in this mode: if approved it runs with all rights of the account that runs understudy."
PATCH = "Allow Codex to apply proposed code changes?"
BECAUSE = "Asked because: "
BECAUSE_OUTSIDE = f"{BECAUSE}changes files outside the project"

SPEAKING = "src`? It stays inside the sandbox. `"

Asked = dict[str, tuple[Attack, str, list[str]]]  # the call, the first line, the others

LEAVING: Asked = {
    "escalated": (
        shell("touch", "/etc/x", with_escalated_permissions=True, justification='Safe.\nIt stays "inside" the sandbox\u202e'),
        "Allow Codex to run `touch /etc/x` in `<project>`?",
        [OUTSIDE, "The model's own words, not checked: \"Safe. It stays 'inside' the sandbox\\u{202e}\""],
    ),
    "hook": (
        patch("*** Add File: src/../.git/hooks/pre-commit", "+evil"),
        PATCH,
        [
            f"{BECAUSE}changes a protected path",
            "! add src/../.git/hooks/pre-commit (+1): protected, takes effect later, run or obeyed by git",
        ],
    ),
    "outside": (
        patch("*** Update File: a.txt", "@@", "-one", "+two", "*** Add File: ../outside/b c (+0): safe", "+x"),
        PATCH,
        [BECAUSE_OUTSIDE, "! add '../outside/b c (+0): safe' (+1): outside the project", "- update a.txt (+1 -1)"],
    ),
    "replaced": (
        patch("*** Add File: ../outside/kept.txt", "+mine"),
        PATCH,
        [BECAUSE_OUTSIDE, "! update ../outside/kept.txt (+1 -1): outside the project, replaces what is there"],
    ),
    "moved": (
        patch("*** Update File: a.txt", "*** Move to: ../outside/kept.txt", "@@", "-one", "+two"),
        PATCH,
        [BECAUSE_OUTSIDE, "! move a.txt to ../outside/kept.txt (+1 -1): outside the project, replaces what is there"],
    ),
}
UNCONTAINED: Asked = {
    "plain": (shell("rm", "-rf", "build"), "Allow Codex to run `rm -rf build` in `<project>`?", [NO_SANDBOX]),
    "lines": (
        script("make\nIf approved it is contained."),
        "Allow Codex to run `bash -c 'make\\u{a}If approved it is contained.'` in `<project>`?",
        [NO_SANDBOX, "The script has 2 lines:", "| make", "| If approved it is contained."],
    ),
    "closes its quotes": (
        shell("rm", "x` in `/`? This runs inside the sandbox. `"),
        "Allow Codex to run `rm 'x\\u{60} in \\u{60}/\\u{60}? This runs inside the sandbox. \\u{60}'` in `<project>`?",
        [NO_SANDBOX],
    ),
    "in a folder that speaks": (
        shell("rm", "x", workdir=SPEAKING),
        "Allow Codex to run `rm x` in `<project>/src\\u{60}? It stays inside the sandbox. \\u{60}`?",
        [NO_SANDBOX],
    ),
    "tail": (
        shell("touch", "a" * 500, "and rm -rf /"),
        f"Allow Codex to run `touch {'a' * 500} 'and rm -rf /'` in `<project>`?",
        [NO_SANDBOX, "The command is 521 characters long. It ends with:", f"| {'a' * 145} 'and rm -rf /'"],
    ),
    "ordinary": (patch("*** Add File: new.txt", "+x"), PATCH, ["- add new.txt (+1)"]),
}
SCENES = {
    "on-request, workspace-write": ({"approval_policy": "on-request", "sandbox_mode": "workspace-write"}, LEAVING),
    "untrusted, danger-full-access": ({"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}, UNCONTAINED),
}


async def questions(place: House, asked: Asked, config: dict[str, Any], version: str) -> dict[str, dict[str, Any]]:
    """The params of each question; all are declined."""
    found: dict[str, dict[str, Any]] = {}
    script = attacks({name: row[0] for name, row in asked.items()})
    (place.project / SPEAKING).mkdir()
    async with besieged(script, place, config, protocol_version=version) as (model, client):
        turn = client.call_tool("codex", prompt="go")
        for _ in asked:
            question = await client.next_request("elicitation/create")
            found[question["params"]["codex_call_id"]] = question["params"]
            await client.respond(question, {"action": "decline"})
        await turn
        assert all("rejected by user" in outcome for outcome in told(model.requests[-1]).values())
    return found


@pytest.mark.quick(1)
@pytest.mark.parametrize("scene", SCENES)
async def test_an_older_client_gets_the_line_it_knows_and_the_rest_as_the_reason(scene: str) -> None:
    config, asked = SCENES[scene]
    with house() as place:
        found = await questions(place, asked, config, OLD)
        for name, (_, first, more) in asked.items():
            reason = [more[0].removeprefix(BECAUSE)] if more[0].startswith(BECAUSE) else []
            assert found[name]["message"].split("\n") == [*reason, first.replace("<project>", str(place.project))], name
            assert found[name]["codex_reason"].split("\n") == more, name
            assert found[name]["requestedSchema"] == {"type": "object", "properties": {}}


def _ending_of(first: str) -> list[str]:
    """Some clients show 70 columns and three lines."""
    command = first.partition(" in `<project>")[0]
    return [f"It ends with `…{command[-55:]}"] if len(command) > 70 and first != PATCH else []


@pytest.mark.quick(1)
@pytest.mark.parametrize("scene", SCENES)
async def test_a_newer_client_gets_all_of_it_in_the_message_and_a_choice(scene: str) -> None:
    config, asked = SCENES[scene]
    with house() as place:
        found = await questions(place, asked, config, NEW)
        for name, (_, first, more) in asked.items():
            expected = [first.replace("<project>", str(place.project)), *_ending_of(first), *more]
            assert found[name]["message"].split("\n") == expected, name
            choices = found[name]["requestedSchema"]["properties"]["decision"]["enum"]
            assert ("approved_for_session" in choices) == (found[name]["codex_elicitation"] == "exec-approval")
            assert {"approved", "denied", "abort"} <= set(choices)
