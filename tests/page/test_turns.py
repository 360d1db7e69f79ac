"""A conversation on the page: started, watched as it goes, spoken to, stopped."""

import base64
from pathlib import Path

from PIL import Image

from tests.page.browser import browsing, in_browser
from tests.page.rest import Rest
from understudy.testing import ScriptedModel, cut_after, say
from understudy.testing.home import provider_settings

pytestmark = in_browser

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
PLAN = [
    {"step": "Look around", "status": "completed"},
    {"step": "Mend it", "status": "in_progress"},
    {"step": "Test it", "status": "pending"},
]
MEND = """*** Begin Patch
*** Update File: stats.py
@@
 def mean(numbers):
-    return sum(numbers) / (len(numbers) + 1)
+    return sum(numbers) / len(numbers)
*** Add File: notes.md
+# Notes
*** End Patch
"""


async def test_a_conversation_is_started_in_a_folder_and_shown_with_all_that_it_does(tmp_path: Path) -> None:
    counting = "for i in $(seq 40); do echo line $i; done"
    answers = [
        [
            {"think": "Where may it be?"},
            {"say": "I look at **the files**:\n\n- `stats.py`\n"},
            {"call": "update_plan", "arguments": {"plan": PLAN}},
            {"call": "shell", "id": "call-2", "arguments": {"command": ["bash", "-lc", counting]}},
            {"usage": {"input": 2000, "output": 345}},
        ],
        [
            {"call": "apply_patch", "arguments": {"input": MEND}},
            {"call": "shell", "id": "bad", "arguments": {"command": ["false"]}},
        ],
        {"say": "It is mended."},
    ]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        (server.cwd / "stats.py").write_text("def mean(numbers):\n    return sum(numbers) / (len(numbers) + 1)\n")
        tab = await chrome.log_in()
        assert "code=" not in tab.page.url
        await tab.start("Mend the mean", Folder=str(server.cwd))
        await tab.sees("It is mended.", tab.timeline)
        assert await tab.page.locator(".agent-message strong").inner_text() == "the files"
        assert await tab.page.locator(".agent-message li code").inner_text() == "stats.py"
        steps = await tab.page.locator(".plan li").all_inner_texts()
        assert [" ".join(step.split()) for step in steps] == [
            "✓ Look around (done)",
            "▸ Mend it (in progress)",
            "○ Test it (to do)",
        ]
        output = tab.page.locator(".command").first
        assert "line 40" not in await output.inner_text()
        await output.get_by_role("button", name="40 lines").click()
        assert "line 40" in await output.inner_text()
        await output.get_by_role("button", name="Fold the output").click()
        assert "line 40" not in await output.inner_text()
        assert await tab.page.locator(".command .outcome").all_inner_texts() == ["done", "exit 1"]
        diff = tab.page.get_by_role("region", name="Changes of stats.py")
        assert await diff.locator("tr.removed .line").inner_text() == "−    return sum(numbers) / (len(numbers) + 1)"
        assert await diff.locator("tr.added .line").inner_text() == "+    return sum(numbers) / len(numbers)"
        await tab.button("Thoughts").click()
        await tab.sees("Where may it be?", tab.timeline)
        await tab.sees("2.3k tokens", tab.page.locator(".head"))
        await tab.sees("idle", tab.page.locator(".head"))
        assert (await tab.rows.first.locator(".row-title").inner_text()) == "Mend the mean"


async def test_an_answer_is_shown_as_it_grows_and_stays_when_it_is_finished(tmp_path: Path) -> None:
    answers = [[{"say": ["Begun. ", "**Bo"], "unfinished": True}, {"hang": True}], {"say": ["Again ", "and whole."]}]
    async with browsing(tmp_path, answers, config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Talk")
        await tab.sees("Begun.", tab.page.locator(".live"))
        await tab.sees("working", tab.page.locator(".head"))
        await tab.button("Stop").click()
        await tab.sees("Stopped.", tab.timeline)
        await tab.sees("Begun.", tab.page.locator(".items"))
        await tab.send("Once more")
        await tab.sees("Again and whole.", tab.page.locator(".items"))


async def test_a_running_turn_is_steered_and_another_message_is_queued(tmp_path: Path) -> None:
    wait = {"command": ["bash", "-lc", "echo so far; while [ ! -e go ]; do sleep 0.05; done"]}
    answers = [[{"say": "I wait."}, {"call": "shell", "arguments": wait}], {"say": "Steered."}, {"say": "The queue is done."}]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Wait for me", Folder=str(server.cwd))
        await tab.page.locator(".command.running").wait_for()
        await tab.sees("so far", tab.page.locator(".command.running .output"))  # with the command that puts it out
        assert await tab.page.locator(".live .output").count() == 0
        await tab.send("Go left", "Steer")
        await tab.sees("Go left", tab.page.locator(".items"))
        await tab.send("And then right", "Queue")
        await tab.sees("Queued: And then right", tab.page.locator(".items"))
        await tab.sees("1 message queued", tab.page.locator(".head"))
        (server.cwd / "go").touch()
        await tab.sees("The queue is done.", tab.page.locator(".items"))
        await tab.is_gone("1 message queued")
        assert (await Rest(server).until_idle(thread))["state"] == "idle"


async def test_a_turn_that_fails_says_why(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"fail": "the provider is on fire"}, {"say": "Better."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Try")
        await tab.sees("the provider is on fire", tab.page.locator(".note.bad"))
        await tab.send("Again")
        await tab.sees("Better.", tab.timeline)


async def test_images_go_with_a_message_and_are_shown_from_the_log(tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    Image.new("RGB", (40, 30), "teal").save(picture)
    async with browsing(tmp_path, [{"say": "Hello."}, {"say": "A teal rectangle."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Look")
        await tab.sees("Hello.", tab.timeline)
        await tab.page.locator("input[type=file]").set_input_files(str(picture))
        await tab.page.get_by_role("button", name="Remove image 1").wait_for()
        await tab.send("What is this?")
        await tab.sees("A teal rectangle.", tab.timeline)
        shown = tab.page.locator(".user-message img")
        await tab.until("() => document.querySelector('.user-message img')?.naturalWidth === 40")
        assert "/images/" in (await shown.get_attribute("src") or "")
        assert base64.b64encode(picture.read_bytes()).decode()[:40] not in await tab.page.content()


async def test_what_was_written_for_a_new_conversation_is_there_after_a_look_at_another(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Greet")
        await tab.sees("Hello.", tab.timeline)
        await tab.go("#/new")
        field = tab.page.get_by_label("What should be done?")
        assert await field.input_value() == ""
        await field.fill("A long task")
        await tab.open(thread)
        await tab.go("#/new")
        assert await field.input_value() == "A long task"


async def test_a_folder_that_is_not_there_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with browsing(tmp_path, config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        tab.expects_failures = True
        await tab.page.get_by_role("link", name="New", exact=True).click()
        await tab.page.get_by_label("What should be done?").fill("Go")
        await tab.page.get_by_label("Folder", exact=True).fill("/not/there")
        await tab.button("Start").click()
        await tab.page.locator(".notice.bad", has_text="/not/there").wait_for()


async def test_somebody_with_a_root_starts_in_it_and_nowhere_else(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in_with(await server.add_token("guest", "--root", str(server.cwd)))
        await tab.page.get_by_role("link", name="New", exact=True).click()
        await tab.sees(f"Allowed: {server.cwd}")
        folder = tab.page.get_by_label("Folder", exact=True)
        assert await folder.input_value() == str(server.cwd)
        modes = await tab.page.get_by_label("Commands may").locator("option").all_inner_texts()
        assert modes == ["as configured", "read files only", "write in its folder"]
        await tab.page.get_by_label("What should be done?").fill("Greet")
        await folder.fill("/usr")
        tab.expects_failures = True
        await tab.button("Start").click()
        await tab.page.locator(".notice.bad").wait_for()
        await folder.fill(str(server.cwd))
        await tab.button("Start").click()
        await tab.sees("Hello.", tab.timeline)


async def test_a_request_that_is_put_again_is_told_with_its_reason(tmp_path: Path) -> None:
    async with ScriptedModel([cut_after(say("Hel")), say("Hello.")]) as model:
        again = {**provider_settings(model), "model_providers.mock.stream_max_retries": 1}
        async with browsing(tmp_path, config=again) as (server, chrome):
            tab = await chrome.log_in()
            await tab.start("Greet", Folder=str(server.cwd))
            await tab.sees("Hello.", tab.timeline)
            await tab.sees("Reconnecting... 1/1: stream disconnected before completion", tab.timeline)
