"""Makes docs/pictures/page-*.png anew: the page in a real browser, before a real server whose model plays a script.

Run by `make page-pictures`, which says where our test support is; needs Chromium. Names of pictures may be given.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from scripts.pictures import ASKED
from tests.page.browser import Tab, browsing, shared
from tests.page.rest import Rest
from tests.page.test_keeping_up import ten_thousand
from tests.support.http_server import HttpServer

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLOURS = 200  # enough for a page, and small
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write", "model": "scripted"}

BUG = '''def mean(numbers):
    """The arithmetic mean."""
    total = 0
    for number in numbers:
        total += number
    return total / (len(numbers) + 1)


def spread(numbers):
    return max(numbers) - min(numbers)
'''
CHECK = """from stats import mean

for number in range(1, 13):
    print(f"test_mean_{number} ok")
assert mean([2, 4]) == 3, f"mean of 2 and 4 is {mean([2, 4]):.2f}"
"""
MEND = """*** Begin Patch
*** Update File: stats.py
@@
 def mean(numbers):
     \"\"\"The arithmetic mean.\"\"\"
-    total = 0
-    for number in numbers:
-        total += number
-    return total / (len(numbers) + 1)
+    if not numbers:
+        raise ValueError("the mean of nothing is not defined")
+    return sum(numbers) / len(numbers)
*** Add File: CHANGES.md
+# Changes
+
+- `mean` divides by the number of values, and says so where there are none.
*** End Patch
"""
SAID = """The check compares `mean([2, 4])` with 3 and gets 2.

- **stats.py** divides by `len(numbers) + 1`
- an empty list divides by one and gives 0, which hides mistakes

I mend both."""
STEPS = ("See how it fails", "Mend `mean`", "Run the check", "Publish")
USAGE = {"usage": {"input": 12100, "cached": 9800, "output": 460}}


def plan(done: int) -> dict[str, Any]:
    states = ["completed" if index < done else "in_progress" if index == done else "pending" for index in range(len(STEPS))]
    steps = [{"step": step, "status": state} for step, state in zip(STEPS, states, strict=True)]
    return {"call": "update_plan", "id": f"plan-{done}", "arguments": {"plan": steps}}


def shell(call_id: str, *command: str, **more: Any) -> dict[str, Any]:
    return {"call": "shell", "id": call_id, "arguments": {"command": list(command), **more}}


PUBLISH = {"with_escalated_permissions": True, "justification": "The check passes, and you asked me to publish."}
ANSWERS: list[Any] = [
    [plan(0), shell("check-1", "python3", "check.py"), USAGE],
    [{"say": SAID}, {"call": "apply_patch", "id": "mend", "arguments": {"input": MEND}}, USAGE],
    [plan(2), shell("check-2", "bash", "-lc", "python3 check.py && echo all well"), USAGE],
    [
        {"say": "The check passes. I publish the change now."},
        plan(3),
        shell("push", "git", "push", "origin", "main", **PUBLISH),
        USAGE,
    ],
    {"say": "I leave the publishing to you."},
]
ASK = {"call": "request_user_input", "arguments": {"questions": ASKED}}
OTHERS = ("Why is the build slow? Look at the caches first", "Translate the error messages", "Tidy up the tests of the parser")


class Scene(NamedTuple):
    show: Callable[[Tab, HttpServer], Awaitable[None]]
    answers: list[Any] = ANSWERS
    width: int = 1240
    height: int = 860
    scheme: str = "light"


async def to_question(tab: Tab, server: HttpServer) -> str:
    (server.cwd / "stats.py").write_text(BUG)
    (server.cwd / "check.py").write_text(CHECK)
    rest = Rest(server)
    for title in OTHERS:
        row = await rest.post("/v1/conversations", {"prompt": title, "folder": str(server.cwd)})
        call = (await rest.until_asked(row["id"]))["call_id"]
        await rest.post(f"/v1/conversations/{row['id']}/decisions", {"call_id": call, "decision": "denied"})
        await rest.until_idle(row["id"])
        (server.cwd / "stats.py").write_text(BUG)
        (server.cwd / "CHANGES.md").unlink()
    prompt = "python3 check.py fails. Mend it, and publish."
    thread = (await rest.post("/v1/conversations", {"prompt": prompt, "folder": str(server.cwd)}))["id"]
    await rest.until_asked(thread)
    await tab.open(thread)
    await tab.question.wait_for()
    await tab.until("() => !document.querySelector('.question .primary').disabled")
    return thread


async def question(tab: Tab, server: HttpServer) -> None:
    await to_question(tab, server)


async def ask(tab: Tab, server: HttpServer) -> None:
    """The model wants to know something."""
    rest = Rest(server)
    thread = (await rest.post("/v1/conversations", {"prompt": "Tag a release.", "folder": str(server.cwd)}))["id"]
    await rest.until_asked(thread)
    await tab.open(thread)
    await tab.page.get_by_label("1.5.0").check()
    await tab.until("() => !document.querySelector('.question .primary').disabled")


async def answered(tab: Tab, server: HttpServer) -> None:
    await to_question(tab, server)
    await tab.button("Deny …").click()
    await tab.page.get_by_label("A word to the model").fill("I do that myself")
    await tab.button("Deny").click()
    await tab.sees("I leave the publishing to you.", tab.timeline)
    await tab.page.get_by_role("button", name="Dismiss this notice").click()
    await tab.page.locator(".rows .is-waiting").wait_for(state="detached")  # the list comes a moment later
    await tab.page.evaluate("() => { document.querySelector('.timeline').scrollTop = 0; }")


async def diff(tab: Tab, server: HttpServer) -> None:
    await answered(tab, server)
    await tab.page.keyboard.press("v")
    await tab.page.locator(".changes .diff-file").first.wait_for()


async def many(tab: Tab, server: HttpServer) -> None:
    rest = Rest(server)
    thread = (await rest.post("/v1/conversations", {"prompt": "Ten thousand records", "folder": str(server.cwd)}))["id"]
    await rest.until_idle(thread)
    await tab.open(thread)
    await tab.sees("The end.", tab.timeline)
    await tab.page.evaluate("() => { document.querySelector('.timeline').scrollTop = 2000; }")
    await tab.page.get_by_role("button", name="Newest").wait_for()


async def phone_list(tab: Tab, server: HttpServer) -> None:
    await to_question(tab, server)
    await tab.go("#/")
    await tab.rows.first.wait_for()


SCENES = {
    "page": Scene(answered),
    "page-question": Scene(question),
    "page-ask": Scene(
        ask,
        [[{"say": "Both are ready. I need a word from you before I tag it."}, ASK, USAGE]],
        height=720,
    ),
    "page-dark": Scene(question, scheme="dark"),
    "page-diff": Scene(diff),
    "page-phone": Scene(question, width=360, height=740),
    "page-phone-list": Scene(phone_list, width=360, height=740),
    "page-many": Scene(many, [*ten_thousand(), {"say": "The end."}]),
}


async def photograph(name: str, scene: Scene) -> None:
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        view = {"width": scene.width, "height": scene.height, "color_scheme": scene.scheme, "reduced_motion": "reduce"}
        async with browsing(Path(folder, "me"), scene.answers, config=ASKING, locale="en-GB", **view) as (server, chrome):
            tab = await chrome.log_in()
            await scene.show(tab, server)
            await tab.page.mouse.move(0, 0)
            path = PICTURES / f"{name}.png"
            await tab.page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"docs/pictures/{name}.png")


async def main() -> None:
    wanted = sys.argv[1:] or list(SCENES)
    if unknown := [name for name in wanted if name not in SCENES]:
        raise SystemExit(f"pictures: no picture {unknown[0]!r}; there are: {', '.join(SCENES)}")
    try:
        for name in wanted:
            await photograph(name, SCENES[name])
    finally:
        await shared.close()


if __name__ == "__main__":
    asyncio.run(main())
