"""`understudy doctor` and `backup`: what works here, said truly, and a copy of everything."""

import sqlite3
from pathlib import Path
from typing import Any

from tests.cli.program import Program


def _found(program: Program, *words: str, env: dict[str, str] | None = None, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    import json

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
    assert "nothing is deleted by itself" in found["Conversations/retention"][0]["text"]
    assert any(findings[0]["text"] == "works, and is used" for name, findings in found.items() if name.startswith("Sandbox/"))
    printed = program.call("doctor")
    assert (printed.code, printed.out.splitlines()[-1]) == (0, "All works.")


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
    )
    assert found["Model/key"][0] == {"section": "Model", "name": "key", "level": "ok", "text": "present"}
    assert "https://host:8/v1" in found["Model/provider"][0]["text"]
    for hidden in (secret, "pw123", "v456"):
        assert hidden not in str(found)


def test_a_configuration_that_does_not_parse_is_broken_with_its_place(program: Program) -> None:
    program.configure("model = \n")
    ended = program.call("doctor")
    assert ended.code == 1
    assert "✗ settings: TOML parse error at line 1, column 9" in ended.out
    assert _found(program, env={"CODEX_HOME": "/no/such"}, code=1)["Configuration/folder"][0]["level"] == "broken"


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


async def test_a_backup_is_a_whole_store_and_writes_over_nothing(program: Program, tmp_path: Path) -> None:
    ended = program.call("backup", str(tmp_path / "copy.db"))
    assert (ended.code, "there are no conversations" in ended.err) == (1, True)
    program.script({"say": "Hello."})
    one = await program.begin("Greet me")
    copy = tmp_path / "copy.db"
    ended = program.call("backup", str(copy))
    assert (ended.code, ended.out) == (0, f"1 conversation saved to {copy}\n"), ended.err
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "is there already" in program.call("backup", str(copy)).err

    other = Program(tmp_path / "other", program.cwd)
    (other.home / "understudy").mkdir(parents=True, mode=0o700)
    copy.rename(other.home / "understudy" / "conversations.db")
    assert other.call("show", one).out == program.call("show", one).out
