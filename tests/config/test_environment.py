"""Which variables a command is given."""

import pytest

from understudy.config import ShellEnvironment, command_environment

ENV = {
    "PATH": "/bin",
    "HOME": "/h",
    "PLAIN": "1",
    "MY_TOKEN": "2",
    "my_secret": "3",
    "API_KEY_FILE": "4",
    "FOO1": "5",
    "FOO22": "6",
}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (ShellEnvironment(), {"PATH", "HOME", "PLAIN", "FOO1", "FOO22"}),
        (ShellEnvironment(ignore_default_excludes=True), set(ENV)),
        (ShellEnvironment(inherit="core"), {"PATH", "HOME"}),
        (ShellEnvironment(inherit="none"), set[str]()),
        (ShellEnvironment(exclude=("foo?",)), {"PATH", "HOME", "PLAIN", "FOO22"}),
        (ShellEnvironment(exclude=("f*", "[p]lain")), {"PATH", "HOME", "PLAIN"}),
        (ShellEnvironment(set={"MY_KEY": "kept", "NET": "set"}), {"PATH", "HOME", "PLAIN", "FOO1", "FOO22", "MY_KEY", "NET"}),
        (ShellEnvironment(set={"NET": "set"}, include_only=("path", "n?t")), {"PATH", "NET"}),
    ],
)
def test_variables_are_inherited_excluded_set_and_narrowed_in_that_order(policy: ShellEnvironment, kept: set[str]) -> None:
    assert set(command_environment(policy, ENV)) == kept


def test_a_set_value_replaces_the_inherited_one() -> None:
    assert command_environment(ShellEnvironment(set={"PATH": "/x"}), ENV)["PATH"] == "/x"
