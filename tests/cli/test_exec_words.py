"""`understudy exec`: its words in every order, prompts from everywhere, and what is refused before anything begins."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.exec_runs import LONGEST, finish, place
from tests.support.app_client import AppClient
from understudy import __version__
from understudy.cli.exec.options import OPTIONS, is_exec, parse
from understudy.cli.parsing import nearest
from understudy.testing import ScriptedModel, say

ID = "0199c0de-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "--experimental-json", "--skip-git-repo-check", "resume", ID, "--image", "p.png"],
        ["exec", "--experimental-json", "--image", "p.png", "--skip-git-repo-check", "resume", ID],
        ["exec", "--experimental-json", "--skip-git-repo-check", "resume", "--image", "p.png", "--", ID, "-"],
        ["exec", "resume", ID, "-", "--json", "--skip-git-repo-check", "-ip.png"],
        ["-c", "model=x", "e", "--json", "resume", "--skip-git-repo-check", "-i=p.png", ID],
    ],
)
def test_every_order_of_the_sdks_means_the_same(words: list[str]) -> None:
    assert is_exec(words)
    request = parse(words)
    assert (request.action, request.thread, request.images, request.json) == ("resume", ID, ["p.png"], True)
    assert request.prompt in (None, "-")


def test_the_word_resume_behind_two_dashes_is_a_prompt() -> None:
    request = parse(["exec", "--", "resume"])
    assert (request.action, request.prompt) == ("new", "resume")
    assert parse(["exec", "resume", "--last", "go"]).prompt == "go"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["exec", "--nonsense", "go"], "unexpected argument `--nonsense`"),
        (["exec", "--sandbx", "read-only", "go"], "did you mean `--sandbox`?"),
        (["exec", "--json=true", "go"], "takes no value"),
        (["exec", "-s", "bogus", "go"], "read-only, workspace-write, danger-full-access"),
        (["exec", "a", "b"], "there is one prompt"),
        (["exec", "--search", "go"], "--search"),
        (["exec", "-m"], "needs a value"),
        (["exec", "resume", "-s", "read-only", ID, "go"], "has to stand before `resume`"),
        (["exec", "--last", "go"], "belongs behind `resume`"),
        (["review", "--format", "xml"], "understudy review: `xml` is no value for `--format`"),
        (["exec", "review", "--bas", "main"], "usage: understudy review ["),
    ],
)
def test_what_makes_no_sense_ends_with_exit_code_2_and_a_word(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


_WORDS = st.sampled_from([name for option in OPTIONS for name in option.names] + ["resume", "fork", "--", "-", "go", "a=b", ""])


@given(st.lists(_WORDS | st.text(max_size=5), max_size=8))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    code: object = 2
    try:
        parse(["exec", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2


@pytest.mark.slow
async def test_the_prompt_is_read_from_wherever_it_comes(tmp_path: Path) -> None:
    cases: list[tuple[list[str], bytes | None, str]] = [
        (["say hi"], None, "say hi"),
        (["-"], b"from stdin\nline two\n", "from stdin\nline two\n"),
        ([], b"from stdin", "from stdin"),
        (["look at this"], b"data", "look at this\n\n<stdin>\ndata\n</stdin>"),
        (["say hi"], b"", "say hi"),
        (["-"], b"\xef\xbb\xbfb\xc3\xa4r", "bär"),
        (["-"], "bär".encode("utf-16"), "bär"),
    ]
    async with ScriptedModel([say("ok") for _ in cases]) as model:
        where = place(model, tmp_path)
        for words, piped, _ in cases:
            assert (await where.json(*words, stdin=piped)).code == 0, words
        said = [request["input"][-1]["content"][-1]["text"] for request in model.requests]
    assert said == [wanted for _, _, wanted in cases]


@pytest.mark.slow
async def test_what_is_no_prompt_is_refused_with_nothing_on_standard_output(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        where = place(model, tmp_path)
        for words, piped, told in (
            ([], b"", "No prompt provided via stdin."),
            (["-"], b"  \n", "No prompt provided via stdin."),
            (["-"], b"a\xff\xfeb", "offset 1"),
            (["-i", "none.png", "go"], None, "none.png"),
            (["-i", "../user/.codex/config.toml", "go"], None, "is masked"),
            (["-c", "justakey", "go"], None, "no `=`"),
            (["-p", "none", "go"], None, "profile `none` not found"),
            (["-C", "none", "go"], None, "none"),
            (["--strict-config", "-c", "nonsense.key=1", "go"], None, "nonsense"),
            (["resume", ID, "go"], None, ID),
            (["resume", "no-such-name", "go"], None, "no-such-name"),
            (["resume", "--last", "go"], None, "nothing to resume"),
            (["resume"], b"go", "needs the id of a conversation"),
            (["resume"], b"", "needs the id of a conversation"),
            (["fork"], b"", "`exec fork` needs the id of a conversation"),
        ):
            run = await where.json(*words, stdin=piped)
            assert (run.code, run.out) == (1, ""), words
            assert told in run.err, words
        outside = await where.run("exec", "--json", "go")
        assert (outside.code, outside.out) == (1, "")
        assert "Not inside a trusted directory and --skip-git-repo-check was not specified." in outside.err


@pytest.mark.slow
async def test_options_of_newer_codex_are_obeyed_or_said_to_have_no_effect(tmp_path: Path) -> None:
    idle = ["--approve-for-me", "--dangerously-bypass-hook-trust", "--trust", "--local-provider", "ollama"]
    async with ScriptedModel([say("done")]) as model:
        where = place(model, tmp_path)
        done = await where.run("exec", "--skip-git-repo-check", *idle, "go")
    assert (done.code, done.out) == (0, "done\n")
    for option in ("--approve-for-me", "--dangerously-bypass-hook-trust", "--trust", "--local-provider"):
        assert f"understudy: {option} has no effect" in done.err
    refused = await where.run("exec", "--skip-git-repo-check", "--oss", "--local-provider", "nope", "go")
    assert (refused.code, "Model provider `nope` not found" in refused.err) == (1, True)


async def test_a_trusted_folder_and_a_repository_need_no_other_word(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two")]) as model:
        where = place(model, tmp_path)
        assert (await where.run("trust", str(where.cwd))).code == 0
        assert (await where.run("exec", "--json", "go")).code == 0
        assert (await where.run("trust", "--remove", str(where.cwd))).code == 0
        (where.cwd / ".git").mkdir()
        (where.cwd / ".git" / "HEAD").touch()
        (where.cwd / "below").mkdir()
        assert (await where.run("exec", "--json", "-C", "below", "go")).code == 0


async def test_an_open_pipe_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    async with ScriptedModel([say("ok")]) as model:
        process = await place(model, tmp_path).start(
            "exec", "--json", "--skip-git-repo-check", "say hi", stdin=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(LONGEST):
            await process.stdout.read()
        run = await finish(process)
    assert run.code == 0
    assert "it is left out" in run.err


@pytest.mark.slow
async def test_who_began_a_conversation_is_kept_with_it_and_shown_at_every_door(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two"), say("three"), say("four"), say("five")]) as model:
        where = place(model, tmp_path)
        first = (await where.json("--thread-source", "night build ☾", "go")).thread
        assert (await where.json("--thread-source", "another", "resume", first, "go on")).thread == first
        kept = (await where.json("fork", first, "a copy")).thread
        other = (await where.json("--thread-source", "another", "fork", first, "a copy")).thread
        nobody = (await where.json("--thread-source", "", "go")).thread
        refused = await where.run("exec", "--json", "--skip-git-repo-check", "--thread-source", os.fsdecode(b"\xff"), "go")
        listed = json.loads((await where.run("conversations", "--json")).out)
        shown = (await where.run("show", first)).out
        async with AppClient(where.home.path, where.cwd) as client:
            threads = (await client.call("thread/list"))["data"]
            read = (await client.call("thread/read", threadId=other))["thread"]
    source = {row["conversation_id"]: row.get("thread_source") for row in listed}
    assert source == {first: "night build ☾", kept: "night build ☾", other: "another", nobody: None}
    assert {thread["id"]: thread["threadSource"] for thread in threads} == source
    assert read["threadSource"] == "another"
    assert "begun by night build ☾" in shown
    assert (refused.code, refused.out, "--thread-source" in refused.err) == (1, "", True)


@pytest.mark.slow
async def test_a_link_named_codex_answers_like_codex(tmp_path: Path) -> None:
    link = tmp_path / "codex"
    link.symlink_to(Path(sys.executable).parent / "understudy")
    env = {"CODEX_HOME": str(tmp_path)}  # not even a path
    for words, told in (("--version", "codex-cli"), ("exec --version", "codex-cli-exec"), ("-V", "codex-cli")):
        process = await asyncio.create_subprocess_exec(link, *words.split(), env=env, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        assert (process.returncode, out.decode()) == (0, f"{told} 0.166.0 (understudy {__version__})\n")
    async with ScriptedModel([say("hi")]) as model:
        env |= {"OPENAI_BASE_URL": model.url, "CODEX_API_KEY": "sk-of-a-test"}
        process = await asyncio.create_subprocess_exec(
            link,
            "exec",
            "--json",
            "--skip-git-repo-check",
            "-",
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate("grüß dich".encode())
        assert process.returncode == 0, out
        assert model.requests[0]["input"][-1]["content"][-1]["text"] == "grüß dich"
    assert os.path.isdir(tmp_path / "understudy")


DANGEROUS = ("--yolo", "--full-auto", "--dangerously-bypass-approvals-and-sandbox")


@pytest.mark.parametrize("known", [DANGEROUS, (*DANGEROUS, "--color", "--json")])
def test_what_is_dangerous_is_suggested_only_to_who_nearly_wrote_it(known: tuple[str, ...]) -> None:
    for word in (
        "--foo",
        "--bolo",
        "--polo",
        "--solo",
        "--auto",
        "--full",
        "--bypass",
        "--sandbox",
        "--approvals",
        "--yes",
        "--follow",
    ):
        assert nearest(word, known) not in DANGEROUS, word
    assert nearest("--yolo-", known) == "--yolo"
    assert nearest("--dangerously-bypass-approval-and-sandbox", known) == DANGEROUS[2]
