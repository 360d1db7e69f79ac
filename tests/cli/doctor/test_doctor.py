"""`understudy doctor` and `backup`: what works here, said truly, and a copy of everything."""

import json
import os
import shutil
import socket
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.support.environments import ROOT
from understudy.testing import ScriptedModel, say, status


def _found(program: Program, *words: str, env: dict[str, str] | None = None, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    ended = program.call("doctor", "--json", *words, env=env)
    assert ended.code == code, ended.out + ended.err
    report = json.loads(ended.out)
    assert report["ok"] is (code == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        found.setdefault(f"{finding['section']}/{finding['name']}", []).append(finding)
    return found


async def test_a_working_place_is_said_to_work_with_figures(program: Program) -> None:
    program.script({"say": "Hello."})
    await program.begin("Greet me")
    found = _found(program)
    assert {name: findings[0]["level"] for name, findings in found.items() if findings[0]["level"] not in ("ok", "info")} == {}
    assert found["Conversations/store"][0]["text"].startswith("1 conversation, ")
    assert found["Conversations/integrity"][0]["text"] == "checked, no damage"
    assert "nothing is deleted automatically" in found["Conversations/retention"][0]["text"]
    assert any(findings[0]["text"] == "works, and is used" for name, findings in found.items() if name.startswith("Sandbox/"))
    printed = program.call("doctor")
    assert (printed.code, printed.out.splitlines()[-1]) == (0, "All works.")


def test_a_stranger_of_our_name_beside_us_is_named(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.script({"say": "Hello."})
    assert "Program/package" not in _found(program)
    (info := tmp_path / "site" / "understudy-7.dist-info").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: understudy\nVersion: 7\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    [found] = _found(program)["Program/package"]
    assert (found["level"], "understudy` 7 is installed beside" in found["text"]) == ("warning", True)
    assert found["text"].endswith("uninstall both, then install `understudy-codex` again")


def test_extras_and_git_are_named(program: Program) -> None:
    program.script({"say": "Hello."})
    found = _found(program)
    assert "chat" in found["Program/extras"][0]["text"].partition(";")[0]
    assert found["Program/git"][0]["text"] == (shutil.which("git") or "not installed; `review` needs it")


def test_every_extra_is_one_that_is_looked_for(program: Program) -> None:
    program.script({"say": "Hello."})
    [found] = _found(program)["Program/extras"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name for name in extras if name not in found["text"]} == {"testing"}  # which is no part of the program


def _installed_elsewhere(folder: Path, version: str | None) -> str:
    (program := folder / "bin" / "understudy").parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho it was run >&2; exit 1\n")
    program.chmod(0o755)
    if version is not None:
        (folder / f"lib/python3.11/site-packages/understudy_codex-{version}.dist-info").mkdir(parents=True)
    return str(program)


def test_a_newer_an_older_and_a_strange_program_of_our_name_are_told_apart(program: Program, tmp_path: Path) -> None:
    program.script({"say": "Hello."})
    newer, older, strange = (
        _installed_elsewhere(tmp_path / name, version) for name, version in (("n", "99.1"), ("o", "0.0.1"), ("s", None))
    )
    path = os.pathsep.join([*(os.path.dirname(each) for each in (newer, older, strange)), os.environ["PATH"]])
    found = _found(program, env={"PATH": path})
    first, second = found["Program/another version"][:2]
    assert (first["level"], first["text"].startswith(f"{newer} is newer: 99.1, and this is ")) == ("warning", True)
    assert (second["level"], second["text"]) == ("info", f"{older} is version 0.0.1")
    foreign = found["Program/another program"][0]
    assert (foreign["level"], foreign["text"].startswith(f"{strange} is not of the package")) == ("warning", True)


def test_files_of_one_version_under_the_name_of_another_are_named(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.script({"say": "Hello."})
    (info := tmp_path / "site" / "understudy_codex-7.dist-info").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: understudy-codex\nVersion: 7\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    [found] = _found(program)["Program/package"]
    assert (found["level"], found["text"].endswith("the package says 7: install it again")) == ("warning", True)


async def test_what_uninstalling_leaves_is_said(program: Program) -> None:
    program.script({"say": "Hello."})
    config = program.home / "config.toml"
    before = _found(program)["Program/uninstalling"][0]["text"]
    assert str(program.home / "understudy") not in before
    await program.begin("Greet me")
    after = _found(program)["Program/uninstalling"][0]["text"]
    assert after.startswith(f"leaves {program.home / 'understudy'}, {config}: conversations, tokens and keys")


@pytest.mark.slow
def test_what_is_missing_or_misspelt_is_named_and_nothing_is_made(program: Program) -> None:
    program.configure('modle = "x"\nmodel_provider = "mine"\n[model_providers.mine]\nname = "Mine"\nenv_key = "MINE_KEY"\n')
    (program.home / "auth.json").write_text("{}")
    (program.home / "auth.json").chmod(0o644)
    found = _found(program, "-c", "model=m", code=1)
    assert "`modle`" in found["Configuration/settings"][1]["text"]
    assert found["Configuration/auth.json"][0]["level"] == "warning"
    assert found["Model/key"][0]["text"].startswith("Missing environment variable: `MINE_KEY`.")
    assert not (program.home / "understudy").exists()

    secret = "sk-very-secret-0123456789"
    found = _found(
        program,
        "-c",
        "model=m",
        "-c",
        'model_providers.mine.base_url="https://me:pw123@host:8/v1?k=v456"',
        env={"MINE_KEY": secret},
        code=1,
    )
    assert found["Model/key"][0] == {
        "section": "Model",
        "name": "key",
        "level": "ok",
        "text": "present, from the variable `MINE_KEY`",
    }
    assert "https://host:8/v1" in found["Model/provider"][0]["text"]
    assert "the name host cannot be resolved" in found["Model/connection"][0]["text"]
    for hidden in (secret, "pw123", "v456"):
        assert hidden not in str(found)


PROVIDER = """
model = "m"
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "http://127.0.0.1:{port}/v1"
request_max_retries = 0
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there, and nobody else is given it meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


def test_a_notify_program_that_cannot_be_run_is_named(program: Program) -> None:
    base = 'model = "m"\nmodel_provider = "scripted"\nnotify = ["{name}"]\n[understudy]\nscripted_model = "x.json"\n'
    (program.home / "tell").write_text("#!/bin/sh\n")
    for name, works in (("no-such-program", False), ("./tell", False), ("sh", True)):
        program.configure(base.format(name=name))
        [finding] = [one for one in json.loads(program.call("doctor", "--json").out)["findings"] if one["name"] == "notify"]
        assert (finding["level"] == "ok", f"`{name}` is no program" in finding["text"]) == (works, not works)
    (program.home / "tell").chmod(0o755)
    program.configure(base.format(name="./tell"))
    [finding] = [one for one in json.loads(program.call("doctor", "--json").out)["findings"] if one["name"] == "notify"]
    assert (finding["level"], Path(finding["text"])) == ("ok", program.home / "tell")


@pytest.mark.slow
def test_a_provider_is_connected_to_and_a_closed_port_is_broken(
    program: Program, listener: socket.socket, closed_port: int
) -> None:
    program.configure(PROVIDER.format(port=listener.getsockname()[1]))
    assert _found(program)["Model/connection"][0] == {
        "section": "Model",
        "name": "connection",
        "level": "ok",
        "text": "reached",
    }
    program.configure(PROVIDER.format(port=closed_port))
    (found,) = _found(program, code=1)["Model/connection"]
    assert found["text"] == f"cannot connect to http://127.0.0.1:{closed_port}/v1: connection refused"
    assert "base_url" in found["details"][0]
    printed = program.call("doctor")
    assert (printed.code, printed.out.splitlines()[-1]) == (1, "1 broken, 0 to look at")


@pytest.mark.slow
def test_a_proxy_is_the_way_to_the_provider(program: Program, listener: socket.socket, closed_port: int) -> None:
    program.configure(PROVIDER.format(port=closed_port))
    proxy = f"http://me:hidden@127.0.0.1:{listener.getsockname()[1]}"
    found = _found(program, env={"HTTP_PROXY": proxy})
    assert found["Model/connection"][0]["text"] == f"reached through the proxy {proxy.replace('me:hidden@', '')}"
    found = _found(program, env={"HTTP_PROXY": f"http://127.0.0.1:{closed_port}"}, code=1)
    assert "through the proxy" in found["Model/connection"][0]["text"]


@pytest.mark.slow
async def test_online_the_model_is_asked_with_the_key(program: Program) -> None:
    secret = "sk-very-secret-0123456789"
    refusal = status(401, {"error": {"message": f"Incorrect API key provided: {secret}"}})
    async with ScriptedModel([say("OK"), refusal]) as model:
        program.configure(PROVIDER.format(port=0).replace("http://127.0.0.1:0/v1", model.url) + 'env_key = "MINE_KEY"\n')
        ended = await program.run_aside("doctor", "--json", "--online", env={"MINE_KEY": secret})
        assert (ended.code, _named(ended.out, "answer")["text"]) == (0, "m answers"), ended
        assert model.received[0].headers["authorization"] == f"Bearer {secret}"
        ended = await program.run_aside("doctor", "--json", "--online", env={"MINE_KEY": secret})
        found = _named(ended.out, "answer")
        assert (ended.code, found["level"]) == (1, "broken")
        assert "401 Unauthorized" in found["text"]
        assert secret not in ended.out + ended.err


def _named(report: str, name: str) -> dict[str, Any]:
    return next(finding for finding in json.loads(report)["findings"] if finding["name"] == name)


def test_a_real_command_is_run_in_the_sandbox(program: Program) -> None:
    program.script({"say": "Hello."})
    (found,) = _found(program)["Sandbox/command"]
    assert found["level"] == "ok"
    assert found["text"].startswith(f"`sh` has run in the sandbox, in {program.cwd}, in ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by the landlock rung: run the tests as root for it")
def test_a_rung_on_which_root_can_run_nothing_is_broken(program: Program) -> None:
    program.script({"say": "Hello."})
    (found,) = _found(program, env={"UNDERSTUDY_SANDBOX_RUNG": "landlock"}, code=1)["Sandbox/command"]
    assert found["text"].startswith(f"no command can be run in {program.cwd}: ")
    assert "start the server as another user" in found["text"]


@pytest.mark.slow
def test_a_forced_rung_is_said_to_be_the_reason_and_how_to_undo_it(program: Program) -> None:
    program.script({"say": "Hello."})
    rungs = _found(program, env={"UNDERSTUDY_SANDBOX_RUNG": "nonsense"}, code=1)
    assert "unset it" in rungs["Sandbox/forced"][0]["text"]
    assert not any("not needed" in each["text"] for name, found in rungs.items() if name.startswith("Sandbox/") for each in found)


OWN_PROVIDER = 'model_provider = "mine"\n[model_providers.mine]\nname = "Mine"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.mark.slow
def test_every_wrong_value_is_named_not_only_the_first(program: Program) -> None:
    program.configure(
        'model_provider = "scripted"\nmodel_reasoning_effort = "much"\nproject_doc_max_bytes = "many"\n'
        '[understudy]\nwire = "old"\n[profiles.good]\nmodel = "m"\n[profiles.bad]\nmodel_verbosity = "loud"\n'
    )
    found = _found(program, code=1)
    told = " ".join(str(finding) for finding in found["Configuration/settings"])
    for key in ("model_reasoning_effort", "project_doc_max_bytes", "understudy.wire"):
        assert f"`{key}`" in told
    assert "`-c`" not in told
    program.configure(f'{OWN_PROVIDER}[understudy]\nwire = "old"\n')
    told = " ".join(str(finding) for finding in _found(program, code=1)["Configuration/settings"])
    assert "`understudy.wire`" in told


@pytest.mark.slow
def test_every_profile_is_looked_at(program: Program) -> None:
    program.configure(
        'model_provider = "scripted"\n[profiles.good]\nmodel = "m"\n[profiles.bad]\nmodel_verbosity = "loud"\n'
        '[profiles.lost]\nmodel_provider = "nowhere"\n'
    )
    found = _found(program, code=1)
    assert found["Configuration/settings"][0]["level"] == "ok"
    levels = {name: found[f"Configuration/profile {name}"][0]["level"] for name in ("good", "bad", "lost")}
    assert levels == {"good": "ok", "bad": "broken", "lost": "broken"}
    assert "loud" in found["Configuration/profile bad"][0]["text"]
    program.configure(f'{OWN_PROVIDER}[profiles.good]\nmodel = "m"\n[profiles.bad]\nmodel_verbosity = "loud"\n')
    found = _found(program, code=1)
    assert [finding["level"] for finding in found["Configuration/settings"]] == ["ok", "warning"]
    assert found["Configuration/settings"][1]["text"].startswith("no model is set, so provider `")
    assert "loud" in found["Configuration/profile bad"][0]["text"]


def test_a_login_of_another_program_is_said_not_to_be_supported(program: Program, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    (program.home / "auth.json").write_text('{"OPENAI_API_KEY": null, "tokens": {"access_token": "hidden-token"}}')
    (program.home / "auth.json").chmod(0o600)
    program.configure('model = "m"\n')
    found = _found(program, code=1, env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
    assert "holds a ChatGPT login, which is not supported: set OPENAI_API_KEY" in found["Configuration/auth.json"][0]["text"]
    assert found["Model/key"][0]["level"] == "broken"
    assert "hidden-token" not in str(found)


@pytest.mark.slow
def test_instructions_that_the_model_will_not_see_are_named(program: Program) -> None:
    program.configure('model_provider = "scripted"\nproject_doc_max_bytes = 10\n')
    (program.cwd / ".git").mkdir()
    (program.cwd / ".git" / "HEAD").touch()
    (program.cwd / "below").mkdir()
    (program.home / "AGENTS.md").write_bytes(b"\xff")
    (program.cwd / "AGENTS.md").write_text("more than ten bytes")
    (program.cwd / "below" / "AGENTS.md").symlink_to("/etc/hostname")
    ended = program.call("doctor", "--json", cwd=program.cwd / "below")
    texts = [finding["text"] for finding in json.loads(ended.out)["findings"] if finding["name"] == "AGENTS.md"]
    assert [text.partition("AGENTS.md: ")[2].partition(" (")[0][:30] for text in texts] == [
        "not UTF-8",
        "only its first 10 bytes are re",
        "a link to a place outside the ",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE records SET data = x'7b22ff22' WHERE seq = 3", "record 3 cannot be read"),
        ("UPDATE records SET data = '{}' WHERE seq = 2", "record 2 cannot be read"),
        ("UPDATE records SET data = 5 WHERE seq = 2", "record 2 cannot be read"),
        ("DELETE FROM records WHERE seq = 3", "record 3 is missing"),
        ("DELETE FROM records WHERE seq = 6", "it should have 6 records, and the last one is 5"),
        ("UPDATE conversations SET summary = x'ff'", "its summary cannot be read"),
    ],
)
async def test_a_damaged_record_is_found_and_named(program: Program, damage: str, said: str) -> None:
    program.script({"say": "Hello."})
    one = await program.begin("Greet me")
    with closing(sqlite3.connect(program.home / "understudy" / "conversations.db", isolation_level=None)) as store:
        assert store.execute(damage).rowcount == 1
    (found,) = _found(program, code=1)["Conversations/records"]
    assert found["level"] == "broken"
    assert found["details"][0].startswith(f"{one}: {said}")
    assert "put a backup in the place of" in found["text"]


@pytest.mark.slow
async def test_a_store_from_a_newer_build_is_said_and_not_touched(program: Program) -> None:
    program.script({"say": "Hello."})
    one = await program.begin("Greet me")
    with closing(sqlite3.connect(program.home / "understudy" / "conversations.db", isolation_level=None)) as store:
        store.execute("PRAGMA user_version = 99")
    for words in (("conversations",), ("show", one), ("export", one), ("backup", "x"), ("conversations", "delete", "--yes", one)):
        ended = program.call(*words)
        assert (ended.code, ended.out) == (1, "")
        assert "was written by a newer understudy" in ended.err
    assert "upgrade understudy" in _found(program, code=1)["Conversations/store"][0]["text"]
    assert not (program.cwd / "x").exists()


def test_a_misspelt_key_is_told_once_and_by_the_file_it_is_in(program: Program) -> None:
    program.configure('aproval_policy = "never"\n')
    (found,) = _found(program, code=1)["Configuration/settings"]
    assert found["text"].startswith(f"`aproval_policy` in {program.home}/config.toml is not a key")


def test_a_configuration_that_does_not_parse_is_broken_with_its_place(program: Program) -> None:
    program.configure("model = \n")
    ended = program.call("doctor")
    assert ended.code == 1
    assert "✗ settings: TOML parse error at line 1, column 9: Invalid value\n      1 | model =\n      in " in ended.out
    assert "· store: not looked at: where it is stands in the configuration, which is broken" in ended.out
    assert "1 broken, 0 to look at" in ended.out
    assert _found(program, env={"CODEX_HOME": "/no/such"}, code=1)["Configuration/folder"][0]["level"] == "broken"


def test_a_database_that_cannot_be_found_is_told_of_the_store(program: Program) -> None:
    (found,) = _found(program, env={"UNDERSTUDY_STORE_URL_FILE": "/no/such"}, code=1)["Conversations/store"]
    assert found["level"] == "broken"
    assert "UNDERSTUDY_STORE_URL_FILE" in found["text"]


@pytest.mark.slow
async def test_a_damaged_or_open_store_is_found(program: Program) -> None:
    program.script({"say": "Hello."})
    await program.begin("Greet me")
    folder = program.home / "understudy"
    folder.chmod(0o755)
    assert _found(program)["Conversations/permissions"][0]["level"] == "warning"
    database = folder / "conversations.db"
    sqlite3.connect(database).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    content = bytearray(database.read_bytes())
    content[4096 : 4096 + 64] = b"\xff" * 64
    database.write_bytes(content)
    assert any(finding["level"] == "broken" for name, each in _found(program, code=1).items() for finding in each if "Conv" in name)


@pytest.mark.slow
async def test_a_backup_is_a_whole_store_and_writes_over_nothing(program: Program, tmp_path: Path) -> None:
    ended = program.call("backup", str(tmp_path / "copy.db"))
    assert (ended.code, "there are no conversations" in ended.err) == (1, True)
    program.script({"say": "Hello."})
    one = await program.begin("Greet me")
    copy = tmp_path / "copy.db"
    ended = program.call("backup", str(copy))
    assert (ended.code, ended.out) == (0, f"1 conversation saved to {copy}\n"), ended.err
    assert "conversations.db-wal" in ended.err
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "is there already" in program.call("backup", str(copy)).err

    other = Program(tmp_path / "other", program.cwd)
    (other.home / "understudy").mkdir(parents=True, mode=0o700)
    copy.rename(other.home / "understudy" / "conversations.db")
    assert other.call("show", one).out == program.call("show", one).out
