"""Changing a TOML text in one place, however it is written."""

import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from understudy.config.editing import with_table, with_value, without
from understudy.errors import ConfigError

NAMES = st.sampled_from(["one", "two", "a.b", "ü", "with space"])
TABLE = {"command": "new", "args": ["1", 'a"b'], "env": {"A": "b"}}


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Servers written in each of the ways that TOML has, among other things."""
    lines: list[str] = ["# begin", "top = 1"]
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        quoted = f'"{name}"'
        ways = [
            f"[mcp_servers.{quoted}]\ncommand = 'x' # why\n",
            f"[mcp_servers.{quoted}]\ncommand = 'x'\n[mcp_servers.{quoted}.env]\nA = 'b'\n",
            f"[mcp_servers.{quoted}]\nenv.A = 'b'\nargs = [\n  '[one]', # first\n]\n",
            f"[mcp_servers]\n{quoted} = {{command = 'x', env = {{A = 'b'}}}}\n",
            f"mcp_servers.{quoted}.command = 'x'",
            f"mcp_servers = {{{quoted} = {{command = 'x'}}}}",
            f"[other]\nkey = 2 # {name}\n",
            "[[list]]\nkey = '''\n[mcp_servers.one]\n# no comment\n'''\n",
        ]
        lines.append(draw(st.sampled_from(ways)))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n# end"]))
    return text if draw(st.booleans()) else text.replace("\n", "\r\n")


def said(text: str) -> dict[str, Any]:
    found = tomllib.loads(text)
    return {"mcp_servers": {}, **found}


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def comments(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("# "))


# The last line, which has no end, is followed by another table once `one` is taken out.
ENDS_WITHIN = """# begin
top = 1
[mcp_servers."one"]
command = 'x' # why

[[list]]
key = '''
[mcp_servers.one]
# no comment
'''

[mcp_servers."a.b"]
command = 'x' # why

# end"""


@example(text=ENDS_WITHIN.replace("\n", "\r\n"), name="one")
@given(text=texts().filter(is_toml), name=NAMES)
def test_a_table_is_taken_out_and_put_in_again_and_nothing_else_changes(text: str, name: str) -> None:
    rest = said(text)
    rest["mcp_servers"].pop(name, None)
    try:
        taken = without(text, ("mcp_servers", name))
        put = with_table(taken, ("mcp_servers", name), TABLE)
    except ConfigError:
        return  # written so that it is left to its owner
    assert said(taken) == rest
    assert said(put) == {**rest, "mcp_servers": {**rest["mcp_servers"], name: TABLE}}
    assert comments(taken) == comments(put) == comments(text)
    assert ("\n" in put.replace("\r\n", "")) is ("\r\n" not in text)


@given(text=texts().filter(is_toml), name=NAMES)
def test_a_value_is_set_and_nothing_else_changes(text: str, name: str) -> None:
    wanted = tomllib.loads(text)
    wanted["understudy"] = {name: [1]}
    put = with_value(text, ("understudy", name), [1])
    assert tomllib.loads(put) == wanted
    assert comments(put) == comments(text)
    assert tomllib.loads(with_value(put, ("understudy", name), 2))["understudy"] == {name: 2}
    assert tomllib.loads(without(put, ("understudy", name))).get("understudy", {}) == {}


def test_what_is_taken_out_takes_no_comment_of_its_neighbours_along() -> None:
    text = "# of one\n[servers.one]\na = 1\n# in it\nb = 2\n[servers.one.env]\nc = 3\n\n# of two\n[servers.two]\nd = 4\n"
    assert without(text, ("servers", "one")) == "# of one\n\n# of two\n[servers.two]\nd = 4\n"


def test_a_line_in_a_text_is_not_taken_for_a_heading() -> None:
    text = "[one]\na = '''\n[two]\n'''\n[two]\nb = 1\n[three]\nc = 1\n"
    assert tomllib.loads(without(text, ("two",))) == {"one": {"a": "[two]\n"}, "three": {"c": 1}}


def test_where_there_is_nothing_to_take_out_nothing_changes() -> None:
    assert without("a = 1 # b\n", ("c", "d")) == "a = 1 # b\n"


@pytest.mark.parametrize("text", ["[[servers]]\na = 1\n", "servers = 1\n"])
def test_what_stands_where_a_table_should_be_is_not_overwritten(text: str) -> None:
    with pytest.raises(ConfigError, match="`servers` is not a table"):
        with_table(text, ("servers", "one"), {"command": "x"})
    with pytest.raises(ConfigError, match="`servers` is not a table"):
        with_value(text, ("servers", "one"), 1)


def test_what_cannot_be_changed_without_loss_is_left_to_its_owner() -> None:
    text = "[servers.one]\na = 1\n[other]\n[servers]\ntwo = {a = 1}\n\n# of three\n[three]\n"
    with pytest.raises(ConfigError, match="change it by hand"):
        without(text, ("servers", "two"))
