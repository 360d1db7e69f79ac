"""`understudy export --format` and `verify --page`."""

from pathlib import Path

from tests.cli.program import Program

TOKEN = "ghp_" + "a1" * 18


async def test_a_page_is_written_and_verified(program: Program, tmp_path: Path) -> None:
    program.script({"say": f"The token is {TOKEN}."}, {"say": "Later."})
    one = await program.begin("What is the token?")
    file = tmp_path / "one.html"
    ended = program.call("export", one[:6], "--format", "html", "-o", str(file))
    assert (ended.code, ended.out) == (0, ""), ended.err
    page = file.read_text()
    assert TOKEN not in page
    assert f'data-conversation="{one}"' in page
    good = program.call("verify", "--page", str(file))
    assert good.code == 0
    assert good.out.startswith(f"{one}  the page shows records 1 to ")
    assert ", but for 1 masked place, head " in good.out
    program.run("resume", one, "And then?")
    assert program.call("verify", "--page", str(file)).code == 0  # the log went on; the page is what it was
    file.write_text(page.replace("What is the token?", "What is the time?"))
    bad = program.call("verify", "--page", str(file))
    assert (bad.code, "NOT what the store has: the page was changed in line" in bad.out) == (1, True)
    head = page.partition('data-head="')[2][:64]
    file.write_text(page.replace(head, "0" * 64))
    assert (
        program.call("verify", "--page", str(file)).code,
        "has the digest 0000" in program.call("verify", "--page", str(file)).out,
    ) == (
        1,
        True,
    )
    for name in (str(tmp_path), str(tmp_path / "none"), "/dev/null"):
        assert program.call("verify", "--page", name).code == 2
    assert program.call("verify", one, "--page", str(file)).code == 2
    text = program.call("export", one, "--format", "md").out
    assert "## Agent\n\nThe token is [redacted 1].\n" in text
    assert "- 1: a token or password of a well-known form, in 1 place\n" in text
    assert program.call("export", one, "--format", "pdf").code == 2
