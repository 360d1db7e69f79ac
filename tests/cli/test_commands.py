"""The smaller commands: sandbox, policy, trust, apply-patch, and how the program speaks when it is called wrongly."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import CTRL_D, LONGEST, Program
from understudy import __version__


@pytest.fixture(autouse=True)
def _uses_no_model(program: Program) -> None:
    program.configure("")


def test_a_command_runs_as_the_shell_tool_would_run_it(program: Program, tmp_path: Path) -> None:
    script = (
        "echo out; echo err >&2; touch inside; touch ../outside; touch /tmp/understudy-test-mine; echo key:$OPENAI_API_KEY; exit 3"
    )
    ended = program.run("sandbox", "--", "sh", "-c", script, env={"OPENAI_API_KEY": "sk-secret-12345678"})
    assert (ended.code, ended.out) == (3, "out\nkey:\n")
    assert ended.err.startswith("err\n")
    assert (program.cwd / "inside").exists()
    assert not (tmp_path / "outside").exists()
    assert not Path("/tmp/understudy-test-mine").exists(), "its /tmp is its own"
    assert not list((program.home / "understudy" / "tmp").iterdir()), "and is gone with it"


@pytest.mark.slow
def test_options_widen_or_narrow_what_a_sandboxed_command_may_do(program: Program, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    assert program.run("sandbox", "--writable", "../more", "--", "touch", "../more/made").code == 0
    assert (tmp_path / "more" / "made").exists()
    assert program.run("sandbox", "--mode", "read-only", "--", "touch", "made").code != 0
    assert program.run("sandbox", "--mode", "danger-full-access", "--cwd", str(tmp_path), "touch", "made").code == 0
    assert (tmp_path / "made").exists()


@pytest.mark.slow
def test_exit_codes_are_passed_through_and_failures_to_start_are_said(program: Program) -> None:
    ended = program.run("sandbox", "--", "no-such-program")
    assert (ended.code, ended.err) == (127, "understudy: no-such-program: No such file or directory (os error 2)\n")
    ended = program.run("sandbox", "--timeout", "0.2", "--", "sleep", "60")
    assert ended.code == 124
    assert ended.err.startswith("understudy: ended after ")
    ended = program.run("sandbox")
    assert (ended.code, ended.err) == (2, "understudy: there is no command: understudy sandbox [options] -- CMD …\n")


@pytest.mark.slow
def test_an_interrupted_command_ends_with_all_that_it_started(program: Program) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "sandbox", "--", "sh", "-c", "echo ready; sleep 61 & sleep 61"],
        cwd=program.cwd,
        env=program.environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(LONGEST) == 130
    assert process.stdout.read() == b"", "nobody holds the other end any more"
    process.stdout.close()


@pytest.mark.slow
def test_terminal_escapes_of_a_command_do_not_reach_the_terminal(program: Program) -> None:
    printing = ("sandbox", "--", "printf", r"a\033]0;x\007b\033[2Jc\n")
    assert program.at_terminal(*printing).out == "abc\r\n"
    assert program.run(*printing).out == "a\x1b]0;x\x07b\x1b[2Jc\n", "a pipe gets every byte"


RULES = """
[[policy.rules]]
name = "no-push"
prefix = ["git", "push"]
decision = "deny"
reason = "pushing is for people"
"""


def test_the_policy_says_what_it_decides_and_why(program: Program) -> None:
    program.configure(RULES)
    lines = dict(line.split(maxsplit=1) for line in program.call("policy", "check", "--", "git", "push", "-f").out.splitlines())
    assert lines["decision"] == "deny"
    assert "no-push" in lines["rule"]
    assert "pushing is for people" in lines["reason"]
    told = json.loads(
        program.call("policy", "check", "--json", "--escalated", "-c", "approval_policy=on-request", "--", "make").out
    )
    assert (told["decision"], told["contained"], told["approval_policy"]) == ("ask", False, "on-request")
    assert program.call("policy", "check").code == 2


NETWORK_RULE = """
[[policy.rules]]
name = "dependencies"
prefix = ["printenv", "CODEX_SANDBOX_NETWORK_DISABLED"]
decision = "allow"
network = "on"
"""


@pytest.mark.slow
def test_a_rules_network_is_given_by_sandbox_as_by_the_agent_and_named_by_policy_check(program: Program) -> None:
    command = ("--", "printenv", "CODEX_SANDBOX_NETWORK_DISABLED")
    assert program.run("sandbox", *command).out == "1\n"
    program.configure(NETWORK_RULE)
    assert (program.run("sandbox", *command).code, program.run("sandbox", *command).out) == (1, "")  # a network, so no marker
    assert program.run("sandbox", "--network", "off", *command).out == "1\n"
    for policy in ("on-request", "untrusted", "never"):
        told = json.loads(program.call("policy", "check", "--json", "-c", f"approval_policy={policy}", *command).out)
        assert (told["network"], told["network_from"]) == ("on", "the rule dependencies")
    told = json.loads(program.call("policy", "check", "--json", "--", "make").out)
    assert (told["network"], told["network_from"]) == ("off", "the configuration")


@pytest.mark.slow
def test_sandbox_says_that_there_is_no_network_before_a_command_waits_for_it_or_when_one_has_failed_without(
    program: Program,
) -> None:
    stub = program.cwd / "npm"
    stub.write_text("#!/bin/sh\necho begun >&2\n")
    stub.chmod(0o755)
    ended = program.run("sandbox", "--", "./npm", "install")
    notice, rest = ended.err.split("\n", 1)
    assert rest == "begun\n"
    assert notice.startswith("understudy: `npm install` has no network")
    ended = program.run("sandbox", "--", "sh", "-c", "echo getaddrinfo EAI_AGAIN x >&2; exit 1")
    assert ended.err.splitlines()[1].startswith("understudy: This command has no network")
    assert program.run("sandbox", "--network", "on", "--", "./npm", "install").err == "begun\n"


def test_a_users_tests_for_the_rules_hold_or_fail(program: Program) -> None:
    program.configure(RULES)
    cases = program.cwd / "cases.toml"
    cases.write_text(
        '[[case]]\ncommand = ["git", "push"]\nexpect = "deny"\n[[case]]\nname = "a build"\nscript = "make"\nexpect = "deny"\n'
    )
    ended = program.call("policy", "test", str(cases))
    assert ended.code == 1
    assert ended.out.startswith("ok      git push\nFAILED  a build\n")
    assert "decision is allow, expected deny" in ended.out
    assert ended.err == "1 of 2 hold\n"
    cases.write_text('[[case]]\ncommand = ["git", "push"]\nexpect = "deny"\n')
    assert program.call("policy", "test", str(cases)).code == 0
    cases.write_text("[[case]\n")
    assert program.call("policy", "test", str(cases)).err.startswith(f"understudy: {cases}: ")


def test_folders_are_trusted_listed_and_trusted_no_more(program: Program) -> None:
    (program.cwd / ".mcp.json").write_text("{}")
    assert program.call("trust", ".").out == f"trusted: {program.cwd} (.mcp.json)\n"
    assert program.call("trust", "--list").out == f"{program.cwd}\n"
    (program.cwd / ".mcp.json").write_text("A=2")
    assert "have changed since" in program.call("trust", "--list").out
    assert program.call("trust", "--remove", str(program.cwd)).code == 0
    assert program.call("trust", "--list").out == ""
    assert program.call("trust", "--remove", str(program.cwd)).code == 1
    assert program.call("trust", "/no/such").err.startswith("understudy: cannot trust /no/such")


def test_a_patch_from_standard_input_is_applied_here(program: Program) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch\n"
    ended = program.call("apply-patch", stdin=patch)
    assert (ended.code, ended.out, ended.err) == (0, "Success. Updated the following files:\nA made.txt\n", "")
    assert (program.cwd / "made.txt").read_text() == "hello\n"
    for broken in ("", "nonsense", b"\xff"):
        ended = program.call("apply-patch", stdin=broken)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sandbox", "--timeout", "nan", "--", "ls"), 2),
        (("sandbox", "--timeout=-5", "--", "ls"), 2),
        (("sandbox", "--timeout", "soon", "--", "ls"), 2),
        (("conversations", "--limit", "-1"), 2),
        (("mcp-server", "--bogus"), 2),
        (("mcp-server", "-c", "bogus"), 2),
        (("--",), 2),
        ((), 2),
        (("nonsense",), 2),
        (("policy",), 2),
        (("show",), 2),
        (("sandbox", "--network", "maybe"), 2),
        (("trust",), 2),
    ],
)
def test_a_call_that_makes_no_sense_is_answered_with_usage_and_no_traceback(
    program: Program, words: tuple[str, ...], code: int
) -> None:
    ended = program.call(*words)
    assert (ended.code, ended.out) == (code, "")
    assert "Traceback" not in ended.err
    assert "understudy" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("mcp-server",),
        ("demo",),
        ("conversations",),
        ("conversations", "delete"),
        ("show",),
        ("resume",),
        ("export",),
        ("import",),
        ("doctor",),
        ("backup",),
        ("sandbox",),
        ("apply-patch",),
        ("policy",),
        ("policy", "check"),
        ("policy", "test"),
        ("trust",),
        ("completion",),
    ],
)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    from understudy.cli.commands import run

    with pytest.raises(SystemExit) as ended:
        run([*words, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: understudy {' '.join(words)}")


def test_help_may_be_asked_for_as_a_command(program: Program) -> None:
    assert program.call("help").out == program.call("--help").out
    assert program.call("help", "conversations", "delete").out == program.call("conversations", "delete", "--help").out


def test_a_reader_that_goes_away_ends_the_program_quietly(program: Program) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "--help"],
        cwd=program.cwd,
        env=program.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(LONGEST)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("mcp-server",), ("mcp",), ("mcp-server", "-c", "model=m")])
def test_a_server_at_a_terminal_says_what_it_is_and_how_to_connect(program: Program, words: tuple[str, ...]) -> None:
    ended = program.at_terminal(*words, answers=[("Ctrl-D", CTRL_D)])
    assert ended.code == 0, ended.out
    assert ended.out.startswith("understudy: this is an MCP server.")
    assert "claude mcp add codex -- understudy mcp-server" in ended.out
    assert program.run(*words).err == "", "a client is told nothing"


def test_the_log_says_who_connected_and_what_was_asked_or_which_levels_there_are(program: Program) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "an\x1b[31meditor", "version": "3"}}
    asked = [{"id": 1, "method": "initialize", "params": hello}, {"id": 2, "method": "ping"}]
    stdin = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in asked)

    log = program.run("mcp-server", stdin=stdin, env={"UNDERSTUDY_LOG": "debug"}).err.splitlines()
    assert log[0].startswith(f"understudy: INFO: understudy {__version__} serves MCP")
    assert "understudy: INFO: client 'an\\x1b[31meditor' '3', MCP 2025-06-18, cannot be asked" in log
    assert "understudy: DEBUG: request 2: 'ping'" in log

    log = program.run("mcp-server", stdin=stdin, env={"UNDERSTUDY_LOG": "loud"}).err
    assert log == "understudy: WARNING: UNDERSTUDY_LOG is 'loud'; it can be debug, info, warning, error\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("shwo", "x"), "show"),
        (("converstions",), "conversations"),
        (("list",), "conversations"),
        (("server",), "mcp-server"),
        (("conversations", "delte", "x"), "delete"),
        (("conversations", "--jsno"), "--json"),
        (("conversations", "--limt", "5"), "--limit"),
        (("conversations", "--limt=5"), "--limit"),
        (("demo", "--aks"), "--ask"),
        (("sandbox", "--netwrok", "off", "--", "ls"), "--network"),
        (("sandbox", "--mode", "readonly", "--", "ls"), "read-only"),
        (("sandbox", "--network=of", "--", "ls"), "off"),
        (("policy", "chek"), "check"),
        (("completion", "fsh"), "fish"),
        (("--verson",), "--version"),
    ],
)
def test_a_word_with_a_slip_in_it_is_answered_with_the_one_that_was_meant(
    program: Program, words: tuple[str, ...], meant: str
) -> None:
    ended = program.call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert f"did you mean `{meant}`?" in ended.err


@pytest.mark.slow
def test_options_of_a_command_to_run_are_its_own(program: Program) -> None:
    assert program.run("sandbox", "--mode", "danger-full-access", "--", "echo", "--jsno").out == "--jsno\n"
    assert program.run("sandbox", "--mode", "danger-full-access", "echo", "--modee").out == "--modee\n"
    assert "did you mean" not in program.call("policy", "check", "ls", "--jsn").err


@pytest.mark.slow
@pytest.mark.parametrize("command", [("policy", "check"), ("sandbox",)])
def test_a_key_with_a_slip_in_it_is_answered_with_the_one_that_was_meant(program: Program, command: tuple[str, ...]) -> None:
    ended = program.run(*command, "-c", "modle=m", "-c", "hide_agent_reasonin=true", "--", "true")
    assert ended.code == 0, ended
    assert "did you mean `model`?" in ended.err
    assert "did you mean `hide_agent_reasoning`?" in ended.err
    ended = program.run(*command, "-c", "aproval_policy=never", "--", "true")
    assert (ended.code, "did you mean `approval_policy`?" in ended.err) == (1, True), "what guards must not be ignored"


@pytest.mark.slow
def test_fish_completes_commands_options_values_and_ids(program: Program) -> None:
    script = program.call("completion", "fish").out
    for piece in (
        "-a conversations -d 'list conversations, the last active first'",
        "complete -c understudy -n '__understudy_after sandbox' -l network -x -a 'off loopback on'",
        "complete -c understudy -n '__understudy_next conversations' -a delete",
        "complete -c understudy -n '__understudy_after conversations delete' -a '(__understudy_ids)'",
        "complete -c understudy -n '__understudy_after export' -s o -l output -r -F",
        "complete -c understudy -n __understudy_next -s V -l version",
    ):
        assert piece in script
    fish = shutil.which("fish")
    if fish is None:
        return
    subprocess.run([fish, "-n"], input=script.encode(), check=True, timeout=LONGEST)
    (program.home / "u.fish").write_text(script)

    def complete(line: str) -> list[str]:
        told = f"source {program.home / 'u.fish'}; complete -C {line!r}"
        done = subprocess.run(
            [fish, "--no-config", "-c", told], env=program.environment(), stdout=subprocess.PIPE, timeout=LONGEST, check=True
        )
        return [each.split("\t")[0] for each in done.stdout.decode().splitlines()]

    assert complete("understudy conv") == ["conversations"]
    assert sorted(complete("understudy sandbox --network ")) == ["loopback", "off", "on"]
    assert sorted(complete("understudy conversations ")) == ["archive", "delete", "unarchive"]
    assert sorted(complete("understudy completion ")) == ["bash", "fish", "tcsh", "zsh"]
    assert "--full" in complete("understudy show --")
    assert "--version" not in complete("understudy show --")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_completion_script_completes_commands_options_and_ids(program: Program, shell: str) -> None:
    pytest.importorskip("shtab")
    script = program.call("completion", shell).out
    for word in ("conversations", "--network", "loopback", "_understudy_ids"):
        assert word in script
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n"], input=script.encode(), check=True, timeout=LONGEST)


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("doctor", "extra"), "usage: understudy doctor "),
        (("policy", "test", "a.toml", "b.toml"), "usage: understudy policy test "),
        (("mcp-server", "--port"), "usage: understudy mcp-server "),
        (("nothing", "extra"), "usage: understudy ["),
    ],
)
def test_a_word_too_many_is_told_with_the_usage_of_its_own_command(program: Program, words: tuple[str, ...], usage: str) -> None:
    ended = program.call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(usage)
    assert words[-1] in ended.err or words[0] == "nothing"


@pytest.mark.parametrize(
    "words",
    [
        ("sandbox",),
        ("policy", "check"),
        ("trust",),
        ("config", "set", "model"),
        ("config", "set", "model", "x", "--unset"),
        ("mcp", "add", "time"),
        ("mcp", "add", "time", "--url", "https://a/mcp", "--sandboxed"),
        ("approvals", "answer", "c1", "yes", "--word", "because"),
        ("token", "add", "bob", "--rights", "everything"),
        ("token", "add", "bob", "--expires", "soon"),
        ("app-server", "--listen", "ws://here"),
    ],
)
def test_arguments_that_do_not_go_together_are_wrong_usage(program: Program, words: tuple[str, ...]) -> None:
    ended = program.call(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("understudy: ")


def test_every_page_that_help_names_is_there(program: Program) -> None:
    named: set[str] = set()
    for words in (
        ("serve",),
        ("open",),
        ("acp",),
        ("app-server",),
        ("proto",),
        ("mcp-server",),
        ("bench-agent",),
        ("policy", "test"),
    ):
        shown = " ".join(program.call(*words, "--help", env={"COLUMNS": "400"}).out.split())
        named |= (found := set(re.findall(r"[^ ]+\.md\b", shown)))
        assert found, words
    assert [path for path in named if not Path(path).is_file()] == []


def test_one_half_of_tls_is_refused_with_what_is_missing(program: Program) -> None:
    (program.home / "some.pem").touch()
    for flag, other in (("--tls-cert", "--tls-key"), ("--tls-key", "--tls-cert")):
        ended = program.call("serve", flag, str(program.home / "some.pem"))
        assert (ended.code, ended.out) == (1, "")
        assert "TLS needs a certificate and its key, and only" in ended.err
        assert f"{other} FILE" in ended.err


def test_usage_shows_what_may_be_left_out_and_where_another_programs_words_go(program: Program) -> None:
    assert "[ACTION ...]" in program.call("conversations", "--help").out
    assert "[ACTION ...]" not in program.call("policy", "--help").out
    for words in (("sandbox",), ("policy", "check"), ("mcp", "add")):
        assert "-- CMD …\n\n" in program.call(*words, "--help").out


@pytest.mark.slow
@pytest.mark.parametrize(("command", "page"), [("acp", "clients.md"), ("app-server", "app-server.md")])
def test_a_server_that_is_started_at_a_terminal_names_its_own_page(program: Program, command: str, page: str) -> None:
    ended = program.at_terminal(command, answers=[(f"{page} says which programs start this", CTRL_D)])
    assert ended.code == 0
