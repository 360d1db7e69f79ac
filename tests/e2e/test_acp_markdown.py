"""Editors take the texts of ACP for Markdown: what is not ours is in blocks that it cannot end."""

from pathlib import Path

from tests.e2e.test_acp import ASKS, scene
from understudy.testing import call, say


async def test_what_editors_would_take_for_markdown_is_shown_as_it_is(tmp_path: Path) -> None:
    """Output keeps its lines, and nothing in it ends the block; of a question only the first line, which is ours, is not in one."""
    odd = "# no heading\\n<!-- hidden -->\\n````\\n![x](http://evil.example/x.png)\\033[31m red"
    argv = ["printf", odd]
    script = [call("shell", command=argv), call("shell", command=["touch", "<!--", "-->"]), say("done")]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        number = client.ask_prompt(await client.new_session(work), "go")
        for index in range(2):
            question = await client.question(index)
            lines = question["params"]["toolCall"]["content"][0]["content"]["text"].split("\n")
            assert lines[0].startswith("Allow the agent to run `")
            assert (lines[1], lines[2], lines[-1]) == ("", "```", "```")
            client.respond(question, {"outcome": {"outcome": "selected", "optionId": "approved"}})
        await client.answer(number)
    shown = next(
        update["content"][0]["content"]["text"] for update in client.updates("tool_call_update") if update.get("rawOutput")
    )
    assert shown == "`````\n# no heading\n<!-- hidden -->\n````\n![x](http://evil.example/x.png) red\n`````"
