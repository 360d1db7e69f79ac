"""Whatever a model puts into a call, the model is told what was wrong with it, and the turn goes on."""

from tests.security.house import Attack, attacks, besieged, house, patch, shell, told

NUL = "execution error: no program can be given a NUL character"
UNREAD = "failed to parse function arguments: "
NO_PATH = "cannot be patched"

CALLS: dict[str, tuple[Attack, str]] = {
    "NUL in a word": (shell("echo", "a\0b"), NUL),
    "NUL in the program": (shell("a\0b"), NUL),
    "NUL in the folder": (shell("echo", "x", workdir="a\0b"), NUL),
    "half a character": (shell("echo", "\ud800"), UNREAD),
    "half a character in the folder": (shell("echo", "x", workdir="\ud800"), UNREAD),
    "no program": (shell(), "execution error: command args are empty"),
    "an empty program": (shell("", "x"), "execution error: command args are empty"),
    "more time than there is": (shell("echo", "x", timeout=10**30), '{"output":"x\\n"'),
    "more time than a float can hold": (shell("echo", "x", timeout=10**400), '{"output":"x\\n"'),
    "no time at all": (shell("sleep", "9", timeout=0), '{"output":"command timed out after 0 milliseconds\\n"'),
    "time that runs backwards": (shell("echo", "x", timeout=-1), UNREAD),
    "a folder too long": (shell("echo", "x", workdir="a/" * 5000), "execution error: File name too long"),
    "a file for a folder": (shell("echo", "x", workdir="a.txt"), "execution error: Not a directory"),
    "a text for a list": (("shell", {"command": "rm -rf /"}), UNREAD),
    "a list for an object": (("shell", ["rm"]), UNREAD),
    "a deep one": (("shell", '{"command": ' + "[" * 100_000 + "]" * 100_000 + "}"), UNREAD),
    "no JSON": (("shell", '{"command": ["rm"'), UNREAD),
    "NUL in a patched path": (patch("*** Add File: a\0b", "+x"), f"error: 'a\\u{{0}}b' {NO_PATH}"),
    "a patch that is none": (("apply_patch", {"input": "rm"}), "error: "),
    "a tool that is none": (("conversationApprove", {"decision": "approved"}), "unsupported call: conversationApprove"),
    "a tool with odd letters": (("shell\n", {"command": ["id"]}), "unsupported call: shell\n"),
}


async def test_every_oddity_is_told_to_the_model_and_the_turn_goes_on() -> None:
    with house() as place:
        async with besieged(attacks({name: call for name, (call, _) in CALLS.items()}), place) as (model, client):
            before = place.snapshot()
            result = await client.call_tool("codex", prompt="go")
            assert "isError" not in result
            outcomes = told(model.requests[-1])
            assert {name: outcomes[name][: len(start)] for name, (_, start) in CALLS.items()} == {
                name: start for name, (_, start) in CALLS.items()
            }
            assert client.stderr == ""
            assert place.snapshot() == before
