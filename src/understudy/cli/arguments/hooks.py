"""Commands about hooks."""

from understudy.cli.arguments.adding import CommandParsers, add, add_json


def add_hooks(commands: CommandParsers) -> None:
    about = "list hooks, try one, trust one"
    hooks = commands.add_parser("hooks", help=about, description="List hooks, try one, trust one.")
    hooks.set_defaults(act=None, help_of=hooks)
    actions: CommandParsers = hooks.add_subparsers(metavar="ACTION", title="actions")
    list_ = add(actions, "list", "hooks.listing", "list the hooks of a folder and your own, and say which count")
    add_json(list_)
    test = add(
        actions,
        "test",
        "hooks.testing",
        "run the hooks of a file, and say what they answer",
        more="Exit code 0 if they allow it, 2 if one blocks or asks, 1 if one is broken.",
    )
    test.add_argument("file", metavar="FILE", help="settings.json, hooks.json or config.toml")
    test.add_argument("--event", metavar="EVENT", help="such as PreToolUse; without it, all events of the file")
    test.add_argument("--input", metavar="FILE", help="what the hooks are told, as JSON; - reads it from standard input")
    trust = add(actions, "trust", "hooks.trusting", "let a hook of a folder count, as it is now")
    trust.add_argument("key", metavar="KEY", help="as `hooks list` shows it")
    for parser in (list_, test, trust):
        parser.add_argument("-C", "--cwd", metavar="DIR", help="the folder, if not this one")
