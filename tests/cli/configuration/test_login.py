"""`understudy login`: a key is kept where only its owner can read it, goes to its provider only, and is shown nowhere."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.program import CTRL_D, Program
from understudy.testing import ScriptedModel, say

KEY = "sk-test-0123456789-abcdefghij"
OWN = '[model_providers.own]\nname = "Own"\nbase_url = "{url}"\nwire_api = "chat"\n'


def kept(program: Program) -> Path:
    return program.home / "understudy" / "credentials.json"


def test_a_key_is_kept_for_the_configured_provider_told_masked_and_forgotten(program: Program) -> None:
    before = program.call("login", "status")
    assert (before.code, before.out.startswith("Not logged in")) == (1, True)
    ended = program.call("login", stdin=f"{KEY}\n")
    assert (ended.code, ended.err) == (0, "")
    assert "sk-test-***fghij" in ended.out
    assert KEY not in ended.out
    assert stat.S_IMODE(kept(program).stat().st_mode) == 0o600
    assert json.loads(kept(program).read_text()) == {"api_keys": {"openai": KEY}}
    status = program.call("login", "status")
    assert (status.code, status.out) == (0, f"openai: sk-test-***fghij, from `understudy login`, in {kept(program)}\n")
    assert "the key for openai" in program.call("logout").out
    assert program.call("login", "status").code == 1
    assert program.call("logout").out == "No key was kept.\n"


def test_several_providers_have_a_key_each_and_the_environment_comes_first(program: Program) -> None:
    for provider in ("anthropic", "azure", "openrouter"):
        assert program.call("login", "--provider", provider, stdin=KEY).code == 0
    refused = program.call("logout")
    assert (refused.code, "--provider" in refused.err) == (1, True)
    told = program.call("login", "status", env={"ANTHROPIC_API_KEY": "another-key-0123456789"}).out.splitlines()
    assert told[0] == "anthropic: another-***56789, from the variable `ANTHROPIC_API_KEY`"
    assert len(told) == 3
    assert "for azure" in program.call("logout", "--provider", "azure").out
    assert "anthropic, openrouter" in program.call("logout", "--all").out
    assert json.loads(kept(program).read_text()) == {"api_keys": {}}


@pytest.mark.parametrize("given", ["", "  \n", "two words", "sk-\x07bell", "k" * 20_000, "a\nb"])
def test_what_is_no_key_is_refused_and_not_repeated(program: Program, given: str) -> None:
    ended = program.call("login", stdin=given)
    assert (ended.code, ended.out) == (1, "")
    assert "key" in ended.err
    assert not given.strip() or given not in ended.err
    assert not kept(program).exists()


def test_a_key_on_the_command_line_is_refused_with_the_reason(program: Program) -> None:
    ended = program.call("login", "--api-key", KEY)
    assert ended.code == 1
    assert "standard input" in ended.err
    assert KEY not in ended.err
    bare = program.call("login", KEY)
    assert (bare.code, bare.out) == (2, "")
    assert "standard input" in bare.err
    assert KEY not in bare.err
    unknown = program.call("login", "--provider", "nowhere", stdin=KEY)
    assert (unknown.code, "known are" in unknown.err) == (1, True)


@pytest.mark.parametrize("damage", ["not json", "[]", '{"api_keys": 1}', '{"api_keys": {"openai": 5}}'])
def test_a_damaged_file_is_said_and_not_overwritten(program: Program, damage: str) -> None:
    kept(program).parent.mkdir(mode=0o700)
    kept(program).write_text(damage)
    kept(program).chmod(0o600)
    for words in (("login",), ("login", "status"), ("logout",)):
        ended = program.call(*words, stdin=KEY)
        assert (ended.code, "is not understood" in ended.err) == (1, True), words
    assert kept(program).read_text() == damage


def test_the_end_of_input_instead_of_a_key_keeps_none(program: Program) -> None:
    ended = program.at_terminal("login", answers=[("(it is not shown): ", CTRL_D)])
    assert (ended.code, "there is no key" in ended.out, "Traceback" in ended.out) == (1, True, False)
    assert not kept(program).exists()


def test_a_folder_in_the_place_of_the_keys_is_named(program: Program) -> None:
    kept(program).mkdir(mode=0o700, parents=True)
    for words in (("login",), ("login", "status"), ("logout",)):
        ended = program.call(*words, stdin=KEY)
        assert (ended.code, f"cannot read {kept(program)}" in ended.err) == (1, True), ended.err


def test_a_file_that_others_can_read_is_not_used(program: Program) -> None:
    program.call("login", stdin=KEY)
    kept(program).chmod(0o644)
    ended = program.call("login", "status")
    assert (ended.code, "chmod 600" in ended.err) == (1, True)


async def test_the_key_reaches_its_own_provider_and_no_other(program: Program) -> None:
    async with ScriptedModel([say("Hello."), say("Hello.")]) as model:
        tables = OWN.format(url=model.url) + OWN.replace("own", "other").format(url=model.url)
        program.configure(f'model = "m"\nmodel_provider = "own"\n{tables}')
        assert program.call("login", "--provider", "own", stdin=KEY).code == 0
        await program.begin("Greet me")
        program.configure(f'model = "m"\nmodel_provider = "other"\n{tables}')
        await program.begin("Greet me")
    assert [request.headers.get("authorization") for request in model.received] == [f"Bearer {KEY}", None]
    stored = b"".join(path.read_bytes() for path in kept(program).parent.glob("conversations.db*"))
    assert KEY.encode() not in stored


def test_a_provider_that_is_sent_no_key_is_not_asked_one_for(program: Program) -> None:
    program.script({"say": "Hello."})
    ended = program.call("login", stdin=KEY)
    assert (ended.code, ended.out) == (1, "")
    assert "model provider `scripted` is sent no key" in ended.err
    assert not kept(program).exists()
