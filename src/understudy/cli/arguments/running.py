"""Commands that run something as the agent would, that say what the rules decide, and commands about hooks."""

from understudy.cli.arguments.adding import CommandParsers, add, add_command, add_json, add_overrides, seconds
from understudy.config.home import page_path
from understudy.protocol.choices import NETWORK_MODES, SANDBOX_MODES


def add_hooks(commands: CommandParsers) -> None:
    about = "list hooks, try one, trust one"
    hooks = commands.add_parser("hooks", help=about, description="List hooks, try one, trust one.")
    hooks.set_defaults(act=None, help_of=hooks)
    actions: CommandParsers = hooks.add_subparsers(metavar="ACTION", title="actions")
    list_ = add(actions, "list", "configuration.hooks:run_list", "list the hooks of a folder and your own, and say which count")
    add_json(list_)
    test = add(
        actions,
        "test",
        "configuration.hooks:run_test",
        "run the hooks of a file, and say what they answer",
        more="Exit code 0 if they allow it, 2 if one blocks or asks, 1 if one is broken.",
    )
    test.add_argument("file", metavar="FILE", help="settings.json, hooks.json or config.toml")
    test.add_argument("--event", metavar="EVENT", help="such as PreToolUse; without it, all events of the file")
    test.add_argument("--input", metavar="FILE", help="what the hooks are told, as JSON; - reads it from standard input")
    trust = add(actions, "trust", "configuration.hooks:run_trust", "let a hook of a folder count, as it is now")
    trust.add_argument("key", metavar="KEY", help="as `hooks list` shows it")
    for parser in (list_, test, trust):
        parser.add_argument("-C", "--cwd", metavar="DIR", help="the folder, if not this one")


def add_running(commands: CommandParsers) -> None:
    sandbox = add(commands, "sandbox", "running.sandbox", "run a command exactly as the agent's shell tool would")
    sandbox.add_argument("--mode", choices=SANDBOX_MODES, help="what it may write (default: as configured for the folder)")
    sandbox.add_argument("--cwd", metavar="DIR", help="where it runs (default: here)")
    sandbox.add_argument(
        "--writable", action="append", default=[], metavar="DIR", help="another folder to write to; may be given again"
    )
    sandbox.add_argument("--network", choices=NETWORK_MODES, help="what it may reach (default: as configured, else off)")
    sandbox.add_argument("--timeout", type=seconds, metavar="SECONDS", help="end it after this time (default: no limit)")
    add_overrides(sandbox)
    add_command(sandbox)

    add(commands, "apply-patch", "running.patch", "apply a patch from standard input to the files here")


def add_policy(commands: CommandParsers) -> None:
    policy = commands.add_parser("policy", help="say what your rules decide", description="Say what your rules decide.")
    policy.set_defaults(act=None, help_of=policy)
    actions: CommandParsers = policy.add_subparsers(metavar="ACTION", title="actions")
    check = add(actions, "check", "running.policy", "say what would be decided about a command, and by which rule")
    check.set_defaults(action="check")
    check.add_argument("--escalated", action="store_true", help="as if the model asked to leave the sandbox")
    check.add_argument("--cwd", metavar="DIR", help="where it would run (default: here)")
    add_json(check)
    add_overrides(check)
    add_command(check)
    test = add(actions, "test", "running.policy", "try the cases of a file against the rules", more="Exit code 1 if one fails.")
    test.set_defaults(action="test")
    test.add_argument("file", metavar="FILE", help=f"TOML with cases; {page_path('policy.md')} shows one")
    add_overrides(test)

    trust = add(
        commands,
        "trust",
        "configuration.trust",
        "let a folder's own .codex/config.toml, .mcp.json and skills count, as they are now",
    )
    trust.add_argument("folder", nargs="?", metavar="DIR", help="the folder to trust")
    trust.add_argument("--list", action="store_true", help="list the trusted folders")
    trust.add_argument("--remove", action="store_true", help="stop trusting DIR")
