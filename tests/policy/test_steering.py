"""Variables by which a repository's own files would run in a program with a harmless name."""

from pathlib import Path

import msgspec
import pytest

from tests.policy.threat_cases import FACTS
from understudy.policy.decide import CommandFacts, decide_command
from understudy.policy.rules import parse_rules
from understudy.policy.steering import steering_variable

PROJECT = "/home/me/project"

STEERS = [
    *(f"{name}={value}" for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB")
      for value in (":", ":/usr/lib", "/usr/lib:", "/a::/b", "lib", "./lib", "/usr/lib:../x", f"{PROJECT}/lib", f"/x:{PROJECT}",
                    f"/usr/../{PROJECT}/lib")),
    *("LD_LIBRARY_PATH=/usr/lib;lib", "LD_PRELOAD=./x.so", f"LD_PRELOAD=/usr/lib/a.so {PROJECT}/x.so", "LD_AUDIT=audit.so",
      "PATH=:/usr/bin", "PATH=/usr/bin:.", "PATH=bin:/usr/bin", "PATH=", "GCONV_PATH=.", "LOCPATH=locale", "NLSPATH=%N",
      "TERMINFO=terminfo", "TERMINFO_DIRS=:/usr/share", "XDG_CONFIG_DIRS=config", f"XDG_CONFIG_HOME={PROJECT}/.config"),
    *("BASH_ENV=setup.sh", f"BASH_ENV={PROJECT}/setup.sh", "ENV=.shrc", "ZDOTDIR=.", f"HOME={PROJECT}/home", "HOME=home",
      "PYTHONSTARTUP=x", "PYTHONHOME=py", "GIT_DIR=.git", f"GIT_CONFIG_GLOBAL={PROJECT}/x", "GIT_EXEC_PATH=bin",
      "RIPGREP_CONFIG_PATH=rg", "GIT_SSH_COMMAND=./ssh", f"GIT_EXTERNAL_DIFF={PROJECT}/diff", "GIT_PAGER=./less -R"),
    *("NODE_OPTIONS=--require hook", "NODE_OPTIONS=-r ./hook.js", "NODE_OPTIONS=--import=hook.mjs", "PERL5OPT=-Mhook",
      "PERL5OPT=-I.",
      "RUBYOPT=-rhook", f"RUBYOPT=-I{PROJECT}", "JAVA_TOOL_OPTIONS=-javaagent:agent.jar", "_JAVA_OPTIONS=-Xbootclasspath/a:x.jar",
      "LESSOPEN=|./open %s", "PAGER=./less", "MANPAGER=sh -c ./x", f"EDITOR={PROJECT}/ed", "TAR_OPTIONS=--to-command=./x",
      "PYTHONWARNINGS=ignore:x:hook.py"),
    *("BASH_FUNC_ls%%=() { x; }", "SHELLOPTS=braceexpand", "IFS=x", "PS4=$(x)", "CDPATH=/usr", "GREP_OPTIONS=-r",
      "PROMPT_COMMAND=x"),
]  # fmt: skip
DOES_NOT = [
    "LD_LIBRARY_PATH=", "LD_LIBRARY_PATH=/usr/lib:/opt/lib", "LD_BIND_NOW=1", "LD_PRELOAD=libjemalloc.so.2", "PATH=/usr/bin:/bin",
    f"PATH={PROJECT}/bin:/usr/bin", "PYTHONPATH=/opt/py", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=x", "HOME=/home/me",
    f"HOME={PROJECT}", "JAVA_HOME=/usr/lib/jvm", "NODE_OPTIONS=--max-old-space-size=4096", "NODE_OPTIONS=--openssl-legacy-provider",
    "JAVA_TOOL_OPTIONS=-Xmx2g -Dfile.encoding=UTF-8", "PAGER=less -R", "EDITOR=vim", "GIT_PAGER=cat", "GIT_AUTHOR_NAME=Some Body",
    "GIT_EDITOR=true", "GREP_COLORS=mt=1;31", "LESS=-FRX", "LANG=C", "TERM=xterm", "TERMINFO=/usr/share/terminfo",
    "XDG_CONFIG_HOME=/home/me/.config", "XDG_RUNTIME_DIR=/run/user/1", "MALLOC_ARENA_MAX=2", "GLIBC_TUNABLES=glibc.malloc.check=1",
    "PROJECT_PATH=lib",
]  # fmt: skip


def variable(assignment: str) -> dict[str, str]:
    name, _, value = assignment.partition("=")
    return {"LANG": "C", name: value, "ZZZ": "1"}


@pytest.mark.parametrize("assignment", STEERS)
def test_a_variable_that_brings_in_the_projects_files_is_named(assignment: str) -> None:
    assert steering_variable(variable(assignment), PROJECT, (PROJECT,)) == assignment.partition("=")[0]


@pytest.mark.parametrize("assignment", DOES_NOT)
def test_a_variable_that_brings_in_nothing_is_let_be(assignment: str) -> None:
    assert steering_variable(variable(assignment), PROJECT, (PROJECT,)) is None


def test_a_folder_that_leads_into_the_project_by_a_link_counts(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    environment = {"LD_LIBRARY_PATH": f"/usr/lib:{tmp_path}/link/lib"}
    assert steering_variable(environment, "/", (str(project),)) == "LD_LIBRARY_PATH"


def facts(**changes: object) -> CommandFacts:
    return msgspec.structs.replace(FACTS, **changes)


@pytest.mark.parametrize("argv", [("ls",), ("bash", "-lc", "ls"), ("cat", "a"), ("true",)])
@pytest.mark.parametrize("mode", ["read-only", "workspace-write", "danger-full-access"])
def test_nothing_is_harmless_while_a_variable_steers_it(argv: tuple[str, ...], mode: str) -> None:
    assert decide_command(facts(argv=argv, sandbox_mode=mode)).action == "allow"
    verdict = decide_command(facts(argv=argv, sandbox_mode=mode, steered_by="LD_LIBRARY_PATH"))
    assert (verdict.action, verdict.rule) == ("ask", "untrusted")
    assert verdict.reason == "no program is harmless while the variable LD_LIBRARY_PATH lets files of the project take part in it"


def test_what_a_rule_allows_stays_allowed_inside_the_sandbox_only() -> None:
    rules = parse_rules([{"prefix": ["make"], "decision": "allow"}], source="config.toml", home="/home/me")
    for changes in ({"steered_by": "LD_LIBRARY_PATH"}, {"planted": frozenset(("make",))}):
        allowed = facts(argv=("make",), rules=rules, **changes)
        assert decide_command(allowed).action == "allow"
        assert decide_command(allowed).contained
        assert decide_command(msgspec.structs.replace(allowed, sandbox_mode="danger-full-access")).action == "ask"
