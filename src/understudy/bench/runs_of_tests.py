"""Which commands are test runs, and whether their exit code is the result of the tests.

A table of test runners, and a tolerant reader of scripts: it is only used for reports, so it reads what it can and ignores the
rest. Code that judges commands uses `policy.words`, which refuses what it does not fully understand.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

MOST_SCRIPT = 20_000  # characters; longer scripts are ignored
MOST_WRAPPERS = 8
MOST_BODIES = 20  # here-documents on one line

Words = list[str]


class RunOfTests(NamedTuple):
    """A test run found in a command. `decides`: the command's exit code is the test run's."""

    runner: str
    decides: bool


class Runner(msgspec.Struct, frozen=True):
    """A program that runs tests: always, or if its first word (`verbs`) or any word (`targets`) is one of these."""

    verbs: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()  # options whose value is the next word
    name: str = ""  # its name in a report; empty: the program, and the verb that was found

    @property
    def always(self) -> bool:
        return not self.verbs and not self.targets


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SCRIPTS = Runner(verbs=_names("test t tst run-script run"), valued=_names("--prefix -C --dir --filter -F -w --workspace --cwd"))
_MAVEN = Runner(targets=_names("test verify integration-test surefire:test failsafe:integration-test"), valued=_names("-f -pl -P"))
_GRADLE = Runner(targets=_names("test check allTests connectedAndroidTest integrationTest"), valued=_names("-p -b -x --tests"))
_MAKE = Runner(targets=_names("test tests check distcheck unittest unit-test"), valued=_names("-C -f -I -o --directory --file"))
_ALWAYS = _names(
    "tox nox nosetests nose2 unittest trial behave robot stestr jest vitest mocha ava tap karma jasmine cypress ctest rspec "
    "minitest cucumber phpunit pest codecept bats prove busted ginkgo gotestsum cargo-nextest kyua runtests"
)
_PLAIN_TEST = _names("dart flutter gleam stack cabal dune nimble crystal zig deno playwright meson swift mix hatch composer forge")

RUNNERS: dict[str, Runner] = {
    **dict.fromkeys(("pytest", "py.test"), Runner(name="pytest")),
    **{name: Runner(name=name) for name in _ALWAYS},
    **dict.fromkeys(_PLAIN_TEST, Runner(verbs=_names("test runtest spec"))),
    "cargo": Runner(verbs=_names("test t nextest"), valued=_names("--manifest-path --config -Z --color")),
    "go": Runner(verbs=_names("test"), valued=_names("-C")),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), _SCRIPTS),
    "node": Runner(targets=_names("--test"), name="node --test"),
    "ng": Runner(verbs=_names("test e2e")),
    "react-scripts": Runner(verbs=_names("test")),
    "turbo": Runner(targets=_names("test")),
    "nx": Runner(verbs=_names("test affected:test")),
    **dict.fromkeys(("mvn", "mvnw", "mvnd"), _MAVEN),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    "sbt": Runner(targets=_names("test testOnly testQuick")),
    "lein": Runner(verbs=_names("test midje")),
    "ant": Runner(targets=_names("test check"), valued=_names("-f -buildfile")),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    "ninja": Runner(targets=_names("test check"), valued=_names("-C -f -j")),
    **dict.fromkeys(("just", "task", "mise", "invoke", "inv", "doit"), Runner(targets=_names("test tests check"))),
    **dict.fromkeys(("bazel", "bazelisk", "buck", "buck2"), Runner(verbs=_names("test coverage"))),
    "dotnet": Runner(verbs=_names("test vstest")),
    "xcodebuild": Runner(targets=_names("test test-without-building"), valued=_names("-scheme -project -workspace -destination")),
    "rebar3": Runner(verbs=_names("eunit ct proper")),
    **dict.fromkeys(("rake", "rails"), Runner(targets=_names("test spec test:system test:all"))),
    "artisan": Runner(verbs=_names("test")),
    "manage.py": Runner(verbs=_names("test")),
    "setup.py": Runner(verbs=_names("test")),
    "terraform": Runner(verbs=_names("test")),
    "helm": Runner(verbs=_names("test unittest")),
}

_SCRIPT_NAMES = re.compile(r"(?:.*[:_-])?(?:tests?|spec|e2e|check)(?:[:_-].*)?")  # `npm run test:unit`, `yarn unit-test`
_LISTS_ONLY = _names("--help -h --version --collect-only --co --listTests --list-tests --list --fixtures")  # runs no tests

# Programs that only run another one: how many words of their own they have, besides options, and which options have a value.
_WRAPPERS: dict[str, tuple[int, frozenset[str]]] = {
    "env": (0, _names("-u --unset -C --chdir -S")),
    "time": (0, _names("-f -o")),
    "nice": (0, _names("-n --adjustment")),
    "ionice": (0, _names("-c -n")),
    "timeout": (1, _names("-k -s --kill-after --signal")),
    "gtimeout": (1, _names("-k -s")),
    "sudo": (0, _names("-u -g -C")),
    "stdbuf": (0, _names("-i -o -e")),
    "nohup": (0, frozenset()),
    "exec": (0, frozenset()),
    "command": (0, frozenset()),
    "xvfb-run": (0, _names("-n -s -e -f")),
    "npx": (0, _names("-p --package -c")),
    "bunx": (0, frozenset()),
    "uvx": (0, _names("--from --with --python -p")),
    "dotenv": (0, _names("-f -e")),
    "cross-env": (0, frozenset()),
}
_TOOLS = {  # the same, after one of their subcommands: `uv run`, `poetry run`, `bundle exec`
    "uv": ("run", _names("--with --python -p --extra --group --env-file --project --directory --package --index")),
    "poetry": ("run", _names("-C --directory -P --project")),
    "pdm": ("run", _names("-p")),
    "pipenv": ("run", frozenset[str]()),
    "rye": ("run", frozenset[str]()),
    "hatch": ("run", _names("-e --env")),
    "pixi": ("run", _names("-e --environment")),
    "conda": ("run", _names("-n --name -p --prefix")),
    "mamba": ("run", _names("-n --name -p --prefix")),
    "bundle": ("exec", frozenset[str]()),
    "pnpm": ("exec dlx", frozenset[str]()),
    "yarn": ("exec dlx", frozenset[str]()),
    "npm": ("exec x", frozenset[str]()),
    "bun": ("x", frozenset[str]()),
    "coverage": ("run", _names("--source --rcfile --include --omit --data-file --context")),
    "direnv": ("exec", frozenset[str]()),
    "op": ("run", frozenset[str]()),
}
_SHELL = re.compile(r"(?:ba|da|z|k|a)?sh")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = _names("if then elif else while until do ! { (")  # words that may come before a simple command


def find_test_run(argv: Sequence[str]) -> RunOfTests | None:
    """The test run in a command; of several the last one, because only its exit code may be known."""
    return _find(list(argv), 0)


def _find(argv: Words, depth: int) -> RunOfTests | None:
    words = _unwrapped(argv)
    script = _script_of(words)
    if script is None:
        name = _runner_of(words)
        return RunOfTests(name, decides=True) if name else None
    if depth > 2 or len(script) > MOST_SCRIPT:
        return None
    found: RunOfTests | None = None
    for pipeline in _pipelines(script):
        for index, command in enumerate(pipeline.commands):
            inner = _find(command, depth + 1)
            if inner is not None:
                last = index == len(pipeline.commands) - 1
                found = RunOfTests(inner.runner, inner.decides and last and pipeline.decides)
    return found


def _script_of(words: Words) -> str | None:
    """The script after `-c`, `-lc`, `-l -c`, `-o pipefail -c` of a shell."""
    if not words or not _SHELL.fullmatch(_base(words[0])):
        return None
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return next(rest, None)
        if word in ("-o", "-O", "+o"):
            next(rest, None)
        elif not word.startswith(("-", "+")):
            return None
    return None


def _runner_of(words: Words) -> str | None:
    if not words or any(word in _LISTS_ONLY for word in words[1:]):
        return None
    program = _base(words[0]).removesuffix(".cmd").removesuffix(".bat").removesuffix(".exe")
    runner = RUNNERS.get(program)
    if runner is None:
        return None
    if runner.always:
        return runner.name
    plain = _plain(words[1:], runner.valued)
    if runner.verbs:
        return _by_verb(program, runner, plain)
    wanted = runner.targets
    named = (*plain, *(word for word in words[1:] if word.startswith("-")))
    called = [word for word in named if word in wanted or word.rpartition(":")[2] in wanted]
    return (runner.name or f"{program} {called[0]}") if called else None


def _by_verb(program: str, runner: Runner, plain: Words) -> str | None:
    if program == "cargo" and plain and plain[0].startswith("+"):
        plain = plain[1:]  # a toolchain
    if not plain or (plain[0] not in runner.verbs and runner is not _SCRIPTS):
        return None
    verb, named = plain[0], plain[1] if len(plain) > 1 else ""
    if runner is not _SCRIPTS:
        return f"{program} {verb}"
    if verb in ("run", "run-script"):  # a script of package.json, or a file
        return f"{program} run {named}" if _SCRIPT_NAMES.fullmatch(named) else None
    if verb in runner.verbs:
        return f"{program} test"
    if program in ("yarn", "pnpm"):  # these run scripts, and programs of packages, by name alone
        return f"{program} {verb}" if _SCRIPT_NAMES.fullmatch(verb) else _runner_of(plain)
    return None


def _plain(words: Words, valued: frozenset[str]) -> Words:
    """The words that are neither options nor their values."""
    plain: Words = []
    rest = iter(words)
    for word in rest:
        if word in valued:
            next(rest, None)
        elif not word.startswith("-"):
            plain.append(word)
    return plain


def _unwrapped(words: Words) -> Words:
    """Without assignments, and without programs that only run another one."""
    for _ in range(MOST_WRAPPERS):
        while words and (_ASSIGNMENT.match(words[0]) or words[0] in _RESERVED):
            words = words[1:]
        if not words:
            return words
        within = _within(_base(words[0]), words[1:])
        if within is None:
            return words
        words = within
    return words


def _within(program: str, rest: Words) -> Words | None:
    """The inner command; None if there is none."""
    if program in _WRAPPERS:
        own, valued = _WRAPPERS[program]
        return _after_options(rest, valued)[own:]
    if _PYTHON.fullmatch(program):
        return _of_python(rest)
    if program in _TOOLS:
        verbs, valued = _TOOLS[program]
        words = _after_options(rest, valued)
        if words and words[0] in verbs.split():
            inside = _after_options(words[1:], valued, stop="-m")
            return ["python", *inside] if inside[:1] == ["-m"] else inside
    if program == "php" and rest:
        return _after_options(rest, _names("-d -c"))
    return None


def _of_python(rest: Words) -> Words | None:
    """`python -m pytest` and `python manage.py test` count as commands of their own."""
    inside = _after_options(rest, _names("-W -X"), stop="-m")
    if inside[:1] == ["-m"]:
        return inside[1:]
    return inside if inside and inside[0].endswith((".py", "pytest")) else None


def _after_options(words: Words, valued: frozenset[str], stop: str = "--") -> Words:
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != stop:
        if words[index] == "--":
            return words[index + 1 :]
        index += 2 if words[index] in valued else 1
    if index < len(words) and words[index] == "--":
        index += 1
    return words[index:]


def _base(word: str) -> str:
    return word.rpartition("/")[2]


class _Pipeline(NamedTuple):
    commands: list[Words]
    decides: bool  # the script's exit code is that of its last command, or of one that must succeed for that


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n) | (?P<comment>\#[^\n]*) | (?P<heredoc><<-?[ \t]*(?P<quote>['"\\]?)(?P<mark>[A-Za-z0-9_.]+)['"]?)
      | (?P<redirect>[0-9]*(?:>>|>&|<&|&>>?|>\||<>|[<>])[ \t]*) | (?P<operator>&&|\|\|?&?|;;?|&|\n|[()])
      | (?P<word>(?:'[^']*'|"(?:[^"\\]|\\.)*"|\$\([^()]*\)|\\.|[^\s'"\\;&|()<>])+|.)""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)


def _pipelines(script: str) -> list[_Pipeline]:
    """The simple commands of a script and the operators between them; loops and the like are read as the commands inside."""
    chains: list[list[list[Words]]] = [[[[]]]]  # chains joined by `;`, of pipelines joined by `&&`, of commands joined by `|`
    doubtful: set[int] = set()  # chains with `||`, or in the background: their exit code belongs to no single command
    for operator, word in _tokens(script):
        pipelines = chains[-1]
        if not operator:
            pipelines[-1][-1].append(word)
        elif operator in ("|", "|&"):
            pipelines[-1].append([])
        elif operator == "&&":
            pipelines.append([[]])
        elif operator == "||":
            doubtful.add(len(chains) - 1)
            pipelines.append([[]])
        else:
            if operator == "&":
                doubtful.add(len(chains) - 1)
            if any(any(pipeline) for pipeline in pipelines):
                chains.append([[[]]])
    if not any(any(pipeline) for pipeline in chains[-1]) and len(chains) > 1:
        chains.pop()
    last = len(chains) - 1
    return [
        _Pipeline(pipeline, decides=number == last and number not in doubtful)
        for number, chain in enumerate(chains)
        for pipeline in chain
    ]


def _tokens(script: str) -> Iterator[tuple[str, str]]:
    """(operator, "") or ("", word); leaves out here-documents and the targets of redirections."""
    at = 0
    marks: list[str] = []
    skips_word = False
    word_open = False  # a `#` inside a word does not begin a comment
    while at < len(script):
        token = _TOKEN.match(script, at)
        if token is None:  # cannot happen: the last alternative matches any character
            return
        at = token.end()
        kind = token.lastgroup
        if kind == "comment" and word_open:
            kind = "word"
        word_open = kind == "word"
        if token["heredoc"]:
            marks.append(token["mark"])
        elif token["operator"]:
            if token["operator"] == "\n" and marks:
                at = _after_bodies(script, at, marks)
                marks = []
            yield token["operator"], ""
        elif token["redirect"]:
            skips_word = True
        elif kind == "word":
            if not skips_word:
                yield "", _PIECE.sub(lambda piece: piece[1] or piece[2] or piece[3] or "", token[0])
            skips_word = False


def _after_bodies(script: str, at: int, marks: list[str]) -> int:
    for mark in marks[:MOST_BODIES]:
        end = re.compile(rf"^[ \t]*{re.escape(mark)}[ \t]*$", re.MULTILINE).search(script, at)
        if end is None:
            return len(script)
        at = min(end.end() + 1, len(script))
    return at
