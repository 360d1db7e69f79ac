"""`understudy config get|set|check`: the user's config.toml, with its comments, its rights and its secrets kept."""

import json
import os
import stat
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.program import Program
from understudy.config.editing import line_of, split_key

FILE = """\
# mine
model = "gpt-5"  # the one I like

[understudy.budget]
tokens = 1000

[model_providers.local]
name = "Local"
base_url = "http://user:hunter2-hunter2@localhost:1/v1"
http_headers = { Authorization = "Bearer hunter2-hunter2" }
"""


def text_of(program: Program) -> str:
    return (program.home / "config.toml").read_text()


def test_a_value_is_read_as_it_stands_and_secrets_are_not_shown(program: Program) -> None:
    program.configure(FILE)
    assert program.call("config", "get", "model").out == '"gpt-5"\n'
    assert program.call("config", "get", "understudy.budget.tokens").out == "1000\n"
    assert program.call("config", "get", "understudy").out == "[budget]\ntokens = 1000\n"
    for words in (("get",), ("get", "--json"), ("get", "model_providers.local"), ("get", "model_providers.local.http_headers")):
        ended = program.call("config", *words)
        assert ended.code == 0, ended.err
        assert "hunter2" not in ended.out
        assert "[redacted]" in ended.out or "***" in ended.out
    missing = program.call("config", "get", "approval_policy")
    assert (missing.code, "is not set" in missing.err) == (1, True)
    meant = program.call("config", "get", "aproval_policy")
    assert (meant.code, "did you mean `approval_policy`?" in meant.err) == (1, True)


def test_a_value_is_set_and_all_else_stays_as_it_was_written(program: Program) -> None:
    program.configure(FILE)
    os.chmod(program.home / "config.toml", 0o600)
    for words in (
        ("understudy.budget.tokens", "2000"),
        ("approval_policy", "never"),
        ("sandbox_workspace_write.writable_roots", '["/data"]'),
        ("profiles.ci.model", "gpt-5-mini"),
    ):
        ended = program.call("config", "set", *words)
        assert ended.code == 0, ended.err
    assert stat.S_IMODE(os.stat(program.home / "config.toml").st_mode) == 0o600
    text = text_of(program)
    assert "# mine\n" in text
    assert 'model = "gpt-5"  # the one I like\n' in text
    tree = tomllib.loads(text)
    assert tree["understudy"] == {"budget": {"tokens": 2000}}
    assert tree["approval_policy"] == "never"
    assert tree["sandbox_workspace_write"] == {"writable_roots": ["/data"]}
    assert tree["profiles"] == {"ci": {"model": "gpt-5-mini"}}
    assert program.call("config", "set", "approval_policy", "--unset").code == 0
    assert "approval_policy" not in tomllib.loads(text_of(program))


def test_a_new_file_is_the_user_s_own(program: Program) -> None:
    assert program.call("config", "set", "model", "-", stdin="gpt-5\n").code == 0
    assert tomllib.loads(text_of(program)) == {"model": "gpt-5"}
    assert stat.S_IMODE(os.stat(program.home / "config.toml").st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("aproval_policy", "never"), "did you mean `approval_policy`?"),
        (("nonsense_of_mine", "1"), "is not a key"),
        (("approval_policy", "sometimes"), "`untrusted`"),
        (("understudy.budget.tokens", "many"), "a whole number"),
        (("understudy.question_timeout", "-1"), "0 or more"),
        (("understudy.budget", "12"), "a table"),
        (("model_provider", "nowhere"), "not found"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(program: Program, words: tuple[str, ...], said: str) -> None:
    program.configure(FILE)
    ended = program.call("config", "set", *words)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert text_of(program) == FILE


def test_a_broken_file_is_not_touched(program: Program) -> None:
    program.configure('model = "gpt-5\n')
    ended = program.call("config", "set", "model", "x")
    assert ended.code == 1
    assert "line 1" in ended.err
    assert text_of(program) == 'model = "gpt-5\n'


def checked(program: Program, text: str) -> tuple[int, list[tuple[int | None, str | None]]]:
    program.configure(text)
    ended = program.call("config", "check", "--json")
    assert "Traceback" not in ended.err
    problems: list[dict[str, Any]] = json.loads(ended.out)["problems"]
    return ended.code, [(problem["line"], problem["key"]) for problem in problems]


def test_check_names_every_slip_and_every_wrong_value_with_its_line(program: Program) -> None:
    text = """\
modle = "gpt-5"
approval_policy = "sometimes"

[understudy]
wire = "old"
unasked = 3

[understudy.sandbox]
netwrok = "off"

[profiles.ci]
model_verbosity = "loud"

[history]
max_bytes = 7
persistence = "save-all"
"""
    code, problems = checked(program, text)
    assert code == 1
    assert problems == [
        (1, "modle"),
        (2, "approval_policy"),
        (5, "understudy.wire"),
        (6, "understudy.unasked"),
        (9, "understudy.sandbox.netwrok"),
        (12, "profiles.ci.model_verbosity"),
        (15, "history.max_bytes"),
    ]
    ended = program.call("config", "check")
    assert f"{program.home}/config.toml:1: `modle` is not a key; did you mean `model`?\n" in ended.out
    assert f"{program.home}/config.toml:15: note: `history.max_bytes` has no effect" in ended.out


def test_check_of_what_is_well_or_absent_or_no_toml(program: Program) -> None:
    assert "not there" in program.call("config", "check").out
    code, problems = checked(program, FILE)
    assert (code, problems) == (0, [])
    code, problems = checked(program, "a = 1\nmodel = = 2\n")
    assert (code, problems) == (1, [(2, None)])
    assert program.call("config", "check", "nowhere.toml").code == 1
    (program.cwd / "other.toml").write_text('model = "x"\n')
    assert program.call("config", "check", "other.toml").code == 0


NAME = st.text("abcdefghij_-", min_size=1, max_size=6)


@pytest.mark.slow
@given(st.dictionaries(NAME, st.dictionaries(NAME, st.integers(0, 9), min_size=1, max_size=4), max_size=5))
def test_the_line_of_each_key_is_found(tree: dict[str, dict[str, int]]) -> None:
    lines: list[str] = []
    wanted: dict[str, int] = {}
    for table, values in tree.items():
        lines += ["# a comment = 1", f"[{table}]"]
        for key, value in values.items():
            lines.append(f"  {key} = {value} # [not.a.heading]")
            wanted[f"{table}.{key}"] = len(lines)
    text = "\n".join(lines)
    assert {key: line_of(text, split_key(key)) for key in wanted} == wanted


def test_lines_of_odd_texts_are_found() -> None:
    text = 'a = """\nb = 1\n"""\n[x."y.z"]\n"k = v" = 2\n[[r]]\nname = 1\nt = { inner = 3 }\n'
    assert line_of(text, ("b",)) is None
    assert line_of(text, split_key('x."y.z"."k = v"')) == 5
    assert line_of(text, ("r", "t", "inner")) == 8
    assert line_of("not toml [[[ = = ", ("a",)) is None


RULES = """\
[[policy.rules]]
prefix = ["git"]
decision = "allow"

[[policy.rules]]
prefix = ["rm"]
decision = "forbid"
"""


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        (RULES, [(5, "policy.rules[2]")], "policy.rules[2].decision is 'forbid'"),
        ('[[policy.rules]]\nprogram = "rm"\n', [(1, "policy.rules[1]")], "`program` is not known here"),
        ('[model_providers.mine]\nbase_url = "https://a/v1"\n', [(1, "model_providers.mine.name")], "is missing"),
        (
            '[model_providers.mine]\nname = "Mine"\nbase_url = "ftp://a"\n',
            [(3, "model_providers.mine.base_url")],
            "must begin with http",
        ),
        ('profile = "ci"\n[profiles.work]\nmodel = "x"\n', [(1, "profile")], "config profile `ci` not found; "),
        ("[profiles.ci]\nmodel = 3\n", [(2, "profiles.ci.model")], "`profiles.ci.model`: invalid type: integer `3`"),
        ('[profiles.ci]\nmodel_provider = "zz"\n', [(2, "profiles.ci.model_provider")], "`profiles.ci.model_provider` should be"),
        ('model_provider = "zz"\n', [(1, "model_provider")], "Model provider `zz` not found; `model_provider` should be one of"),
    ],
)
def test_check_says_of_each_table_what_would_keep_a_conversation_from_beginning(
    program: Program, text: str, wanted: list[tuple[int, str]], said: str
) -> None:
    assert checked(program, text) == (1, wanted)
    assert said in program.call("config", "check").out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('[history]\npersistence = "some"\n', [(2, "history.persistence")]),
        ("[mcp_servers.x]\ncommand = 5\n", [(2, "mcp_servers.x.command")]),
        ('[mcp_servers.x]\nurl = "nowhere"\n', [(2, "mcp_servers.x.url")]),
    ],
)
def test_a_wrong_value_is_not_also_called_a_missing_one(program: Program, text: str, wanted: list[tuple[int, str]]) -> None:
    assert checked(program, text) == (1, wanted)


def test_what_was_expected_is_said_once(program: Program) -> None:
    program.configure('approval_policy = "sometimes"\n')
    assert program.call("config", "check").out.count("`on-request`") == 1


def test_a_profile_that_is_not_there_is_not_set(program: Program) -> None:
    program.configure(FILE)
    ended = program.call("config", "set", "profile", "ci")
    assert (ended.code, "not found" in ended.err, text_of(program)) == (1, True, FILE)
