"""Skills in the real program: the model is told where they are, and reads one when it wants to."""

import json
from pathlib import Path

from tests.e2e.scenes import scene, told_to_model
from understudy.testing import call, say, thread_of


async def test_the_model_is_told_of_skills_and_reads_one(tmp_path: Path) -> None:
    home = tmp_path / "user" / ".codex"
    file = home / "skills" / "verse" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: verse\ndescription: How to answer in verse.\n---\nEvery line rhymes.\n")
    script = [call("shell", command=["cat", str(file)]), say("Done."), say("Again.")]
    async with scene(script, tmp_path, home=home) as (model, client):
        first = await client.call_tool("codex", prompt="Use $verse", sandbox="read-only")
        await client.call_tool("codex-reply", prompt="more", threadId=thread_of(first))
    [told] = [text for message in model.requests[0]["messages"] if str(text := message["content"]).startswith("<skills>")]
    line = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    assert line == {"name": "verse", "description": "How to answer in verse.", "path": str(file)}
    assert "Every line rhymes." in told_to_model(model.requests[1])
    prefix = model.requests[0]["messages"]
    assert model.requests[2]["messages"][: len(prefix)] == prefix  # the provider's cache holds
