"""The command line of `exec`: a table of its options, and a parser that accepts them in every order that programs use.

`argparse` cannot do that: options may come before and after `resume`, and an option's value must never swallow the words after it.
"""

import sys
from collections.abc import Sequence
from typing import Literal, NoReturn

import msgspec

from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES

USAGE = 2
WORDS = ("exec", "e")
ACTIONS = ("resume", "fork", "review")
REVIEW = "review"

Kind = Literal["flag", "value", "list"]


class Option(msgspec.Struct, frozen=True):
    """`names`: the first one is shown. `field`: the field of `ExecRequest` that stores it."""

    names: tuple[str, ...]
    field: str
    help: str
    kind: Kind = "flag"
    metavar: str = ""
    choices: tuple[str, ...] = ()
    only_before: bool = False  # not after `resume` or `fork`, because an existing conversation has its own
    only_behind: bool = False
    hidden: bool = False
    only_review: bool = False


def _value(
    names: str,
    field: str,
    metavar: str,
    about: str,
    *,
    choices: tuple[str, ...] = (),
    only_before: bool = False,
    hidden: bool = False,
) -> Option:
    return Option(tuple(names.split()), field, about, "value", metavar, choices, only_before, hidden=hidden)


def _list(names: str, field: str, metavar: str, about: str, *, only_before: bool = False, hidden: bool = False) -> Option:
    return Option(tuple(names.split()), field, about, "list", metavar, (), only_before, hidden=hidden)


def _flag(names: str, field: str, about: str, *, only_before: bool = False, only_behind: bool = False) -> Option:
    return Option(tuple(names.split()), field, about, "flag", "", (), only_before, only_behind)


def _idle(name: str, field: str) -> Option:
    return Option((name,), field, "has no effect", hidden=True)


REVIEW_OPTIONS = tuple(
    msgspec.structs.replace(option, only_review=True)
    for option in (
        _flag("--uncommitted", "uncommitted", "review what is not committed yet, new files too (default)"),
        _value("--base", "base", "BRANCH", "review the commits since this branch left BRANCH"),
        _value("--commit", "commit", "COMMIT", "review this commit"),
        _value("--format", "form", "FORMAT", "text, json, sarif or junit", choices=("text", "json", "sarif", "junit")),
        _value(
            "--fail-on",
            "fail_on",
            "SEVERITY",
            "exit with 3 if a finding is this bad or worse: critical, high, medium, low or info",
            choices=("critical", "high", "medium", "low", "info"),
        ),
        _value("--title", "title", "TEXT", "has no effect", hidden=True),
    )
)
OPTIONS = (
    _flag("--json --experimental-json", "json", "events as lines of JSON on standard output, and nothing else there"),
    _value("-m --model", "model", "MODEL", "the model to ask"),
    _value(
        "-s --sandbox",
        "sandbox",
        "MODE",
        "read-only (the default, unless configured), workspace-write or danger-full-access",
        choices=SANDBOX_MODES,
        only_before=True,
    ),
    _value(
        "-a --ask-for-approval",
        "approval_policy",
        "POLICY",
        "untrusted, on-failure, on-request (the default at a terminal) or never (elsewhere), unless configured",
        choices=APPROVAL_POLICIES,
    ),
    _flag("--full-auto", "full_auto", "the same as --sandbox workspace-write", only_before=True),
    _flag(
        "--dangerously-bypass-approvals-and-sandbox --yolo",
        "bypass",
        "no sandbox and no questions: only on a machine that you can afford to lose",
    ),
    _value("-C --cd", "cwd", "DIR", "work in this folder", only_before=True),
    _list("--add-dir", "add_dir", "DIR", "another folder that may be written to; may be given again", only_before=True),
    _flag("--skip-git-repo-check", "skip_git_check", "also work without a git repository to go back to"),
    _list("-i --image", "images", "FILE", "an image that goes with the prompt; may be given again"),
    _value("--output-schema", "output_schema", "FILE", "a JSON schema that the final answer has to fit"),
    _value("-o --output-last-message", "last_message", "FILE", "write the final answer to this file"),
    _list("--budget", "budget", "LIMIT=N", "stop before this turn uses more: tokens, cost_usd, seconds or requests"),
    _value("--until", "until", "COMMAND", "go on until this succeeds: run by `sh -c`, contained, when the model is done"),
    _flag("--ephemeral", "ephemeral", "keep nothing on disk"),
    _list("-c --config", "config", "KEY=VALUE", "set a key of config.toml; dotted keys reach into tables, values are TOML"),
    _value("-p --profile", "profile", "NAME", "use this profile of the configuration", only_before=True),
    _flag("--oss", "oss", "use a model that is served on this machine"),
    _value("--local-provider", "local_provider", "NAME", "which of them", hidden=True),
    _flag("--strict-config", "strict_config", "an unknown key of the configuration is an error"),
    _flag("--ignore-user-config", "ignore_user_config", "do not read config.toml"),
    _flag("--ignore-rules", "ignore_rules", "ignore the rules in the configuration (policy.rules)"),
    _value(
        "--color",
        "color",
        "WHEN",
        "always, never or auto",
        choices=("always", "never", "auto"),
        only_before=True,
    ),
    _flag("--last", "last", "the newest conversation of this folder", only_behind=True),
    _flag("--all", "all", "with --last: of any folder", only_behind=True),
    *REVIEW_OPTIONS,
    _value("--thread-source", "thread_source", "NAME", "who starts it; kept with a new conversation", hidden=True),
    _value("--cyber-access-program", "cyber_access_program", "NAME", "has no effect", hidden=True),
    _idle("--approve-for-me", "approve_for_me"),
    _idle("--dangerously-bypass-hook-trust", "bypass_hook_trust"),
    _idle("--trust", "trust"),
    _list("--enable", "enable", "FEATURE", "has no effect", hidden=True),
    _list("--disable", "disable", "FEATURE", "has no effect", hidden=True),
    _flag("-h --help", "help", "show this text"),
    _flag("-V --version", "version", "show the version"),
)

_BY_NAME = {name: option for option in OPTIONS for name in option.names}


class ExecRequest(msgspec.Struct):
    """What the command line asks for, as it was written."""

    action: Literal["new", "resume", "fork", "review"] = "new"
    thread: str | None = None
    prompt: str | None = None
    json: bool = False
    model: str | None = None
    sandbox: str | None = None
    approval_policy: str | None = None
    full_auto: bool = False
    bypass: bool = False
    cwd: str | None = None
    add_dir: list[str] = []
    skip_git_check: bool = False
    images: list[str] = []
    output_schema: str | None = None
    last_message: str | None = None
    budget: list[str] = []
    until: str | None = None
    ephemeral: bool = False
    config: list[str] = []
    profile: str | None = None
    oss: bool = False
    local_provider: str | None = None
    strict_config: bool = False
    ignore_user_config: bool = False
    ignore_rules: bool = False
    color: str | None = None
    last: bool = False
    all: bool = False
    thread_source: str | None = None
    cyber_access_program: str | None = None
    approve_for_me: bool = False
    bypass_hook_trust: bool = False
    trust: bool = False
    enable: list[str] = []
    disable: list[str] = []
    help: bool = False
    version: bool = False
    uncommitted: bool = False
    base: str | None = None
    commit: str | None = None
    form: Literal["text", "json", "sarif", "junit"] | None = None
    fail_on: Literal["critical", "high", "medium", "low", "info"] | None = None
    title: str | None = None

    @property
    def begins(self) -> bool:
        """Whether it begins a new conversation."""
        return self.action in ("new", REVIEW)


def is_exec(words: Sequence[str]) -> bool:
    """Whether this is `exec`: its own options may come before that word."""
    index = 0
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            return word in (*WORDS, REVIEW)
        option = _BY_NAME.get(_split(word)[0])
        if option is None or option.field in ("help", "version"):
            return False
        index += 2 if option.kind != "flag" and _split(word)[1] is None else 1
    return False


def parse(words: Sequence[str]) -> ExecRequest:
    """Parses the whole command line, including `exec`. Wrong usage ends the program with exit code 2."""
    return _Parser(words).parse()


class _Parser:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._at = 0
        self._request = ExecRequest()
        self._plain: list[str] = []
        self._named = False  # the word `exec` has come

    def parse(self) -> ExecRequest:
        only_plain = False
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if only_plain or word == "-" or not word.startswith("-"):
                self._take_plain(word, may_be_action=not only_plain)
            elif word == "--":
                only_plain = True
            else:
                self._take_option(word)
        self._give_places()
        return self._request

    def _take_plain(self, word: str, *, may_be_action: bool) -> None:
        if not self._named:
            self._named = True  # `exec` itself, or `review`
            self._request.action = "review" if word == REVIEW else "new"
        elif may_be_action and not self._plain and self._request.action == "new" and word in ACTIONS:
            self._request.action = word  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self._plain.append(word)

    def _take_option(self, word: str) -> None:
        name, value = _split(word)
        option = _BY_NAME.get(name)
        if option is None:
            self._refuse(f"unexpected argument `{name}`{_meant(name)}")
        behind = not self._request.begins
        if option.only_before and behind:
            self._refuse(
                f"`{name}` has to stand before `{self._request.action}`: `understudy exec {name} … {self._request.action} …`"
            )
        if option.only_behind and not behind:
            self._refuse(f"`{name}` belongs behind `resume`: `understudy exec resume {name}`")
        if option.kind == "flag":
            if value is not None:
                self._refuse(f"`{name}` takes no value")
            setattr(self._request, option.field, True)
            return
        if value is None:
            if self._at >= len(self._words):
                self._refuse(f"`{name}` needs a value: {name} {option.metavar}")
            value = self._words[self._at]
            self._at += 1
        self._keep(option, name, value)

    def _keep(self, option: Option, name: str, value: str) -> None:
        if option.choices and value not in option.choices:
            self._refuse(f"`{value}` is no value for `{name}`; it can be {', '.join(option.choices)}")
        if option.kind == "list":
            getattr(self._request, option.field).append(value)
        else:
            setattr(self._request, option.field, value)

    def _give_places(self) -> None:
        request, plain = self._request, self._plain
        names = ["prompt"] if request.begins or request.last else ["thread", "prompt"]
        if len(plain) > len(names):
            what = "there is one prompt: put it in quotes" if names == ["prompt"] else "there is one id and one prompt"
            self._refuse(f"unexpected argument `{plain[len(names)]}`; {what}")
        for name, word in zip(names, plain, strict=False):
            setattr(request, name, word)
        self._check_review()

    def _check_review(self) -> None:
        request = self._request
        given = [option.names[0] for option in REVIEW_OPTIONS if getattr(request, option.field)]
        if request.action != REVIEW:
            if given:
                self._refuse(f"`{given[0]}` belongs to a review: `understudy review {given[0]} …`")
            return
        if len([name for name in given if name in ("--uncommitted", "--base", "--commit")]) > 1:
            self._refuse("a review is of one of --uncommitted, --base and --commit")
        if request.sandbox not in (None, "read-only") or request.full_auto or request.bypass:
            self._refuse("a review runs in the read-only sandbox")
        if request.json and request.form not in (None, "text"):
            self._refuse("--json prints events; leave it out to get --format")
        if request.output_schema is not None:
            self._refuse("a review has a form of its own; leave --output-schema out")
        request.sandbox, request.approval_policy = "read-only", "never"

    def _refuse(self, reason: str) -> NoReturn:
        from understudy.text import strip_terminal_escapes

        review = self._request.action == REVIEW
        name, usage = ("understudy review", REVIEW_USAGE) if review else ("understudy exec", usage_line())
        sys.stderr.write(f"{name}: {strip_terminal_escapes(reason)}\n{usage}\n`{name} --help` says more.\n")
        raise SystemExit(USAGE)


def _split(word: str) -> tuple[str, str | None]:
    """An option and the value attached to it: `--name=value`, `-nvalue`, `-n=value`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], (word[2:].removeprefix("=") if len(word) > 2 else None)


def _meant(name: str) -> str:
    from understudy.cli.parsing import nearest

    near = nearest(name, [each for each in _BY_NAME if each.startswith("--")])
    return f"; did you mean `{near}`?" if near else ""


def usage_line() -> str:
    return "usage: understudy exec [OPTIONS] [resume ID | resume --last | fork ID | review] [PROMPT]"


HELP = """\
{usage}

Give the agent one task, watch it work, and get its answer. The answer goes to standard output, everything else to standard error.

  PROMPT  what to do; `-` or nothing reads it from standard input. With a prompt, what is piped in goes along with it.

{options}

examples:
  understudy exec "What does this project do?"
  understudy exec -s workspace-write "Fix the failing test"
  git diff | understudy exec "Review this change"
  understudy exec resume --last "Now write the changelog"
  understudy exec --json --budget tokens=200000 "List the open TODOs" | jq -r .type
"""


REVIEW_USAGE = "usage: understudy review [--uncommitted | --base BRANCH | --commit COMMIT] [OPTIONS] [PROMPT]"
REVIEW_HELP = """\
{usage}

Have a model look at changes and report what is wrong with them. It may read, and run what changes nothing; git runs in the sandbox,
without the programs that a repository could configure. The review goes to standard output, everything else to standard error.

  PROMPT  what to look at in particular

{options}

exit code: 0; 1 if the review failed; 2 for wrong usage; 3 if a finding is as bad as --fail-on or worse

examples:
  understudy review
  understudy review --base main "Look at the error handling"
  understudy review --base origin/main --format sarif --fail-on high > review.sarif
"""

_NOT_FOR_REVIEWS = ("sandbox", "approval_policy", "full_auto", "bypass", "add_dir", "output_schema", "last", "all", "images")


def options_of(action: str) -> tuple[Option, ...]:
    """The options that have a meaning for it, in the order of the help."""
    if action == REVIEW:
        kept = [option for option in OPTIONS if not option.only_review and option.field not in _NOT_FOR_REVIEWS]
        return (*REVIEW_OPTIONS, *kept)
    return tuple(option for option in OPTIONS if not option.only_review)


def help_text(action: str = "new") -> str:
    rows = [(_shown(option), option.help) for option in options_of(action) if not option.hidden]
    width = max(len(shown) for shown, _ in rows if len(shown) <= 34)
    lines: list[str] = []
    for shown, text in rows:
        if len(shown) > width:
            lines += [f"  {shown}", f"  {'':{width}}  {text}"]
        else:
            lines.append(f"  {shown:{width}}  {text}")
    if action == REVIEW:
        return REVIEW_HELP.format(usage=REVIEW_USAGE, options="\n".join(lines))
    return HELP.format(usage=usage_line(), options="\n".join(lines))


def _shown(option: Option) -> str:
    names = [name for name in option.names if name not in ("--experimental-json", "--yolo")]
    return ", ".join(names) + (f" {option.metavar}" if option.metavar else "")
