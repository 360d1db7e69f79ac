"""What is taken for a command that needs the network: a hint is given early for these, and only for these."""

import pytest

from understudy.policy.network_use import network_user, says_no_network

USERS = {
    "npm install": "npm install",
    "npm --silent ci": "npm ci",
    "/usr/bin/npm i left-pad": "npm i",
    "python3 -m pip install requests": "pip install",
    "uv pip install requests": "uv pip install",
    "uv sync": "uv sync",
    "git -C sub fetch origin": "git fetch",
    "git clone https://example.org/x": "git clone",
    "curl -sS https://example.org": "curl",
    "apt-get -y install jq": "apt-get install",
    "cargo fetch": "cargo fetch",
}
OTHERS = (
    "npm test",
    "npm run install-hooks",
    "npm install --offline",
    "pip install --no-index x",
    "pip --version",
    "git status",
    "git log --grep=fetch",
    "grep -r 'npm install' README.md",
    "echo curl https://example.org",
    "curl http://localhost:8080/x",
    "curl http://127.0.0.1:8080/x",
    "curl --version",
    "uv run pytest",
    "make",
    "",
)
AROUND = (
    "{}",
    "cd web && {} 2>&1 | tail -20",
    "FOO=1 timeout 60 {}; echo $?",
    "if true; then\n({})\nfi",
    "ls -l\n{} || exit 1",
)


@pytest.mark.parametrize("around", AROUND)
def test_a_command_that_needs_the_network_is_found_wherever_it_stands_in_a_script(around: str) -> None:
    for command, user in USERS.items():
        assert network_user(("bash", "-lc", around.format(command))) == user, command
    for command in OTHERS:
        assert network_user(("bash", "-lc", around.format(command))) is None, command


def test_a_command_without_a_shell_is_known_by_its_words() -> None:
    for command, user in USERS.items():
        assert network_user(tuple(command.split())) == user
    for command in OTHERS:
        assert network_user(tuple(command.split())) is None
    assert network_user(()) is None


def test_whatever_the_words_are_the_answer_comes_soon() -> None:
    for script in ("npm " * 100_000, "A=" * 100_000, "(" * 100_000, "timeout " * 100_000 + "npm install", "`" * 100_000):
        network_user(("sh", "-c", script))


@pytest.mark.parametrize(
    "output",
    [
        "npm error code EAI_AGAIN",
        "Error: getaddrinfo ENOTFOUND registry.npmjs.org",
        "curl: (6) Could not resolve host: example.org",
        "[Errno -3] Temporary failure in name resolution",
        "W: Failed to fetch http://deb.debian.org/x  Temporary failure resolving 'deb.debian.org'",
        "failed to lookup address information: Name or service not known",
        "dial tcp: lookup proxy.golang.org: no such host",
        "java.net.UnknownHostException: repo.maven.apache.org",
        "connect: Network is unreachable",
    ],
)
def test_what_programs_say_without_a_network_is_known(output: str) -> None:
    assert says_no_network(f"begin\n{output}\nend")
    assert not says_no_network("1 failed, 3 passed")
