"""The words for arguments that do not fit: what was found, what was expected, and where."""

from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.protocol.serde import explain, found, one_of, unknown_field, unknown_variant


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "done"]


class Params(msgspec.Struct):
    command: tuple[str, ...]
    workdir: str | None = None
    timeout: int | None = None
    loud: bool | None = None
    inner: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "boolean `true`"),
        (False, "boolean `false`"),
        (5, "integer `5`"),
        (-5, "integer `-5`"),
        (1.5, "floating point `1.5`"),
        ("yes", 'string "yes"'),
        ('say "é"', 'string "say \\"é\\""'),
        ([], "sequence"),
        ({}, "map"),
    ],
)
def test_a_value_is_named_by_its_kind(value: object, words: str) -> None:
    assert found(value) == words


def test_choices_are_listed_as_a_person_would() -> None:
    assert one_of(["a"]) == "`a`"
    assert one_of(["a", "b"]) == "`a` or `b`"
    assert one_of(["a", "b", "c"]) == "one of `a`, `b`, `c`"
    assert unknown_variant("z", ["a", "b"]) == "unknown variant `z`, expected `a` or `b`"
    assert unknown_field("z", ["a"]) == "unknown field `z`, expected `a`"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ('{"command":["ls"]', "EOF while parsing an object at line 1 column 17"),
        ('{"command":["ls"', "EOF while parsing a list at line 1 column 16"),
        ('{"command":["l', "EOF while parsing a string at line 1 column 14"),
        ("{}", "missing field `command` at line 1 column 2"),
        ("[]", "invalid type: sequence, expected struct P at line 1 column 2"),
        ('"x"', 'invalid type: string "x", expected struct P at line 1 column 3'),
        ("not json", "expected value at line 1 column 1"),
        ('{"command":"ls"}', 'invalid type: string "ls", expected a sequence at line 1 column 15'),
        ('{"command":[1]}', "invalid type: integer `1`, expected a string at line 1 column 13"),
        ('{"command":[], "workdir":5}', "invalid type: integer `5`, expected a string at line 1 column 26"),
        ('{"command":[],"timeout":"x"}', 'invalid type: string "x", expected u64 at line 1 column 27'),
        ('{"command":[],"timeout":-1}', "invalid value: integer `-1`, expected u64 at line 1 column 26"),
        ('{"command":[],"timeout":1.5}', "invalid type: floating point `1.5`, expected u64 at line 1 column 27"),
        ('{"command":[],"loud":"yes"}', 'invalid type: string "yes", expected a boolean at line 1 column 26'),
        ('{"command":[],"command":[]}', "duplicate field `command` at line 1 column 23"),
        ('{"command":[]} x', "trailing characters at line 1 column 16"),
        ('{"command":[],}', "trailing comma at line 1 column 15"),
        ('{"command" 1}', "expected `:` at line 1 column 12"),
        ("{1:2}", "key must be a string at line 1 column 2"),
        ('{"command":[] "a"}', "expected `,` or `}` at line 1 column 15"),
        ('{\n  "command": [1]\n}', "invalid type: integer `1`, expected a string at line 2 column 15"),
        ('{"command":[],"inner":[{"step":"a"}]}', "missing field `status` at line 1 column 35"),
        (
            '{"command":[],"inner":[{"step":"a","status":"zz"}]}',
            "unknown variant `zz`, expected `pending` or `done` at line 1 column 48",
        ),
        ('{"command":[],"inner":[{"stop":"a"}]}', "unknown field `stop`, expected `step` or `status` at line 1 column 30"),
        ("[" * 200, "recursion limit exceeded at line 1 column 129"),
    ],
)
def test_a_misfit_is_told_what_and_where(text: str, words: str) -> None:
    assert explain(text, Params, "P") == words


def test_a_null_where_nothing_may_stand_fits() -> None:
    assert msgspec.json.decode('{"command":[],"workdir":null}', type=Params).workdir is None


_text = st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\command', max_size=40)


@given(_text)
@settings(max_examples=500)
def test_every_refused_text_has_an_explanation(text: str) -> None:
    try:
        msgspec.json.decode(text, type=Params)
    except msgspec.MsgspecError:
        words = explain(text, Params, "P")
        assert words != "arguments do not fit the tool's schema", text
        assert " at line " in words
