"""Commands that run something as the agent would, and that say what the rules decide."""

from understudy.cli.arguments.adding import CommandParsers, add, add_command, add_json, add_overrides, seconds
from understudy.config.pages import page_path
from understudy.protocol.choices import NETWORK_MODES, SANDBOX_MODES


def add_running(commands: CommandParsers) -> None:
    sandbox = add(commands, "sandbox", "sandbox", "run a command exactly as the agent's shell tool would")
    sandbox.add_argument("--mode", choices=SANDBOX_MODES, help="what it may write (default: as configured for the folder)")
    sandbox.add_argument("--cwd", metavar="DIR", help="where it runs (default: here)")
    sandbox.add_argument(
        "--writable", action="append", default=[], metavar="DIR", help="another folder to write to; may be given again"
    )
    sandbox.add_argument("--network", choices=NETWORK_MODES, help="what it may reach (default: as configured, else off)")
    sandbox.add_argument("--timeout", type=seconds, metavar="SECONDS", help="end it after this time (default: no limit)")
    add_overrides(sandbox)
    add_command(sandbox)

    add(commands, "apply-patch", "patch", "apply a patch from standard input to the files here")


def add_policy(commands: CommandParsers) -> None:
    policy = commands.add_parser("policy", help="say what your rules decide", description="Say what your rules decide.")
    policy.set_defaults(act=None, help_of=policy)
    actions: CommandParsers = policy.add_subparsers(metavar="ACTION", title="actions")
    check = add(actions, "check", "policy", "say what would be decided about a command, and by which rule")
    check.set_defaults(action="check")
    check.add_argument("--escalated", action="store_true", help="as if the model asked to leave the sandbox")
    check.add_argument("--cwd", metavar="DIR", help="where it would run (default: here)")
    add_json(check)
    add_overrides(check)
    add_command(check)
    test = add(actions, "test", "policy", "try the cases of a file against the rules", more="Exit code 1 if one fails.")
    test.set_defaults(action="test")
    test.add_argument("file", metavar="FILE", help=f"TOML with cases; {page_path('policy.md')} shows one")
    add_overrides(test)

    trust = add(commands, "trust", "trust", "let a folder's own .codex/config.toml, .mcp.json and skills count, as they are now")
    trust.add_argument("folder", nargs="?", metavar="DIR", help="the folder to trust")
    trust.add_argument("--list", action="store_true", help="list the trusted folders")
    trust.add_argument("--remove", action="store_true", help="stop trusting DIR")
