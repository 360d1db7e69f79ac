"""`understudy login` with the system's keyring: where the configuration asks for it, and a keyring runs."""

import asyncio
import json
import os
from pathlib import Path

import pytest

import tests
from tests.cli.program import Program
from understudy.testing import ScriptedModel, say

KEY = "sk-test-0123456789-abcdefghij"
OTHER = "sk-test-9876543210-zyxwvutsrq"
BACKENDS = {
    "strong": "tests.support.file_keyring.FileKeyring",
    "weak": "tests.support.file_keyring.WeakKeyring",
    "none": "keyring.backends.fail.Keyring",
}


class Ring:
    """The program's environment with a keyring, and what is in that."""

    def __init__(self, folder: Path, backend: str = "strong") -> None:
        self.file = folder / "ring.json"
        root = Path(tests.__file__).parent.parent
        self.env = {
            "PYTHONPATH": str(root),
            "PYTHON_KEYRING_BACKEND": BACKENDS[backend],
            "TEST_KEYRING_FILE": str(self.file),
        }

    @property
    def passwords(self) -> list[str]:
        return list(json.loads(self.file.read_text()).values()) if self.file.exists() else []

    def lock(self) -> None:
        self.file.with_suffix(".locked").touch()

    def unlock(self) -> None:
        self.file.with_suffix(".locked").unlink()

    def hang(self) -> None:
        """From here on it waits, as for a person."""
        self.file.with_suffix(".asked").unlink(missing_ok=True)
        self.file.with_suffix(".hangs").touch()

    def go_on(self) -> None:
        self.file.with_suffix(".hangs").unlink()

    @property
    def times_asked(self) -> int:
        """Since it hung."""
        asked = self.file.with_suffix(".asked")
        return asked.stat().st_size if asked.exists() else 0


def choose(program: Program, store: str, more: str = "") -> None:
    program.configure(f'cli_auth_credentials_store = "{store}"\n{more}')


def in_file(program: Program) -> str:
    file = program.home / "understudy" / "credentials.json"
    return file.read_text() if file.exists() else ""


@pytest.mark.slow
@pytest.mark.parametrize("store", ["keyring", "auto"])
def test_a_key_is_kept_in_the_keyring_told_masked_and_forgotten(program: Program, tmp_path: Path, store: str) -> None:
    ring = Ring(tmp_path)
    choose(program, store)
    ended = program.run("login", stdin=f"{KEY}\n", env=ring.env)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "The key for OpenAI is kept in the system's keyring: sk-test-***fghij\n"
    assert ring.passwords == [KEY]
    assert KEY not in in_file(program)
    status = program.run("login", "status", env=ring.env)
    assert (status.code, status.out) == (0, "openai: sk-test-***fghij, from `understudy login`, in the system's keyring\n")
    found = json.loads(program.run("doctor", "--json", env=ring.env).out)["findings"]
    [told] = [finding["text"] for finding in found if (finding["section"], finding["name"]) == ("Model", "key")]
    assert told == "present, from `understudy login`, in the system's keyring"
    assert "the key for openai" in program.run("logout", env=ring.env).out
    assert (ring.passwords, "openai" in in_file(program)) == ([], False)
    assert program.run("login", "status", env=ring.env).code == 1


@pytest.mark.slow
def test_a_key_moves_when_the_store_is_another_and_is_nowhere_twice(program: Program, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    choose(program, "keyring")
    assert program.run("login", stdin=KEY, env=ring.env).code == 0
    choose(program, "file")
    assert program.run("login", stdin=OTHER, env=ring.env).code == 0
    assert (ring.passwords, OTHER in in_file(program)) == ([], True)
    choose(program, "keyring")
    assert program.run("login", stdin=KEY, env=ring.env).code == 0
    assert (ring.passwords, OTHER in in_file(program)) == ([KEY], False)


@pytest.mark.quick(1)
@pytest.mark.parametrize("backend", ["weak", "none"])
def test_without_a_good_keyring_auto_is_the_file_and_keyring_insists(program: Program, tmp_path: Path, backend: str) -> None:
    ring = Ring(tmp_path, backend)
    choose(program, "auto")
    assert program.run("login", stdin=KEY, env=ring.env).code == 0
    assert (ring.passwords, KEY in in_file(program)) == ([], True)
    choose(program, "keyring")
    ended = program.run("login", stdin=OTHER, env=ring.env)
    assert ended.code == (0 if backend == "weak" else 1)
    assert (OTHER in ring.passwords, OTHER in in_file(program), KEY in in_file(program)) == (
        (True, False, False) if backend == "weak" else (False, False, True)
    )
    assert backend == "weak" or "no keyring runs here" in ended.err
    assert OTHER not in ended.out + ended.err


def test_where_the_package_is_missing_it_is_named_and_auto_is_the_file(program: Program, tmp_path: Path) -> None:
    (tmp_path / "keyring.py").write_text("raise ModuleNotFoundError(name=__name__)\n")
    env = {"PYTHONPATH": str(tmp_path)}
    choose(program, "keyring")
    ended = program.run("login", stdin=KEY, env=env)
    assert (ended.code, "'.[keyring]'" in ended.err, in_file(program)) == (1, True, "")
    choose(program, "auto")
    assert program.run("login", stdin=KEY, env=env).code == 0
    assert KEY in in_file(program)


@pytest.mark.slow
def test_a_locked_keyring_and_a_store_that_keeps_nothing_are_named(program: Program, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    choose(program, "keyring")
    assert program.run("login", stdin=KEY, env=ring.env).code == 0
    ring.lock()
    for words, code in ((("login",), 1), (("logout",), 1), (("login", "status"), 1)):
        ended = program.run(*words, stdin=OTHER, env=ring.env)
        assert (ended.code, "nobody has unlocked it" in ended.out + ended.err) == (code, True), ended
        assert "Traceback" not in ended.err
        assert OTHER not in ended.out + ended.err
    ring.unlock()
    assert ring.passwords == [KEY]
    assert program.run("login", "status", env=ring.env).code == 0
    choose(program, "ephemeral")
    assert "keeps no key" in program.run("login", stdin=KEY, env=ring.env).err
    choose(program, "drawer")
    assert 'Expected one of "file"' in program.run("login", stdin=KEY, env=ring.env).err


@pytest.mark.slow
async def test_a_key_of_the_keyring_reaches_its_provider_and_nothing_that_is_written(program: Program, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    async with ScriptedModel([say("Hello.")]) as model:
        table = f'[model_providers.own]\nname = "Own"\nbase_url = "{model.url}"\nwire_api = "chat"\n'
        choose(program, "keyring", f'model = "m"\nmodel_provider = "own"\n{table}')
        assert (await asyncio.to_thread(program.run, "login", "--provider", "own", stdin=KEY, env=ring.env)).code == 0
        ended = await program.run_aside("exec", "--skip-git-repo-check", "Greet me", env=ring.env)
    assert (ended.code, KEY in ended.out + ended.err) == (0, False), ended
    assert [request.headers.get("authorization") for request in model.received] == [f"Bearer {KEY}"]
    for folder, _, names in os.walk(program.home):
        for name in names:
            assert KEY.encode() not in (Path(folder) / name).read_bytes(), name
