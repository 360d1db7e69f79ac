"""Makes docs/pictures/claude-code-ask.svg: a question of our model to the user, in the released Claude Code.

Run by `make claude-code-picture`, which says where our test support is. Both models play scripts on loopback, so no key is needed.
"""

import asyncio
from pathlib import Path

import pyte
from scripts.pictures import ASKED, HOME, PICTURES, draw, home_folder
from tests.e2e.test_claude_code import over_pipes, stage
from tests.support.claude_code import RIGHT, text, use

from understudy.testing import call, say


async def photograph(folder: Path) -> pyte.Screen:
    ours = [call("request_user_input", questions=ASKED), say("Tagged.")]
    its = [use("mcp__codex__codex", prompt="Tag a release."), text("The agent is at work.")]
    async with stage(over_pipes, folder, ours, its) as scene:
        await scene.begin()
        await scene.until_form()
        await scene.terminal.press(RIGHT, "◯ 1.5.0")
        return scene.terminal.screen


def main() -> None:
    with home_folder() as folder:
        drawn = draw(asyncio.run(photograph(folder)), "claude").replace(str(folder), HOME)
    (PICTURES / "claude-code-ask.svg").write_text(drawn)
    print("docs/pictures/claude-code-ask.svg")


if __name__ == "__main__":
    main()
