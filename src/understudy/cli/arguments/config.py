"""Commands about the configuration."""

from understudy.cli.arguments.adding import CommandParsers, add, add_json


def add_config(commands: CommandParsers) -> None:
    config = commands.add_parser(
        "config", help="look at config.toml, change it, check it", description="Look at config.toml, change it, check it."
    )
    config.set_defaults(act=None, help_of=config)
    actions: CommandParsers = config.add_subparsers(metavar="ACTION", title="actions")
    get = add(
        actions, "get", "config", "print a value of config.toml, or all of it", more="Keys, tokens and passwords are left out."
    )
    get.set_defaults(action="get")
    get.add_argument("key", nargs="?", metavar="KEY", help="a dotted key, such as understudy.budget.tokens")
    add_json(get)
    set_ = add(
        actions,
        "set",
        "config",
        "change one value of config.toml",
        more="Comments are kept. If the key is unknown or the value is not valid, nothing is written.",
    )
    set_.set_defaults(action="set")
    set_.add_argument("key", metavar="KEY", help="a dotted key, such as understudy.budget.tokens")
    set_.add_argument("value", nargs="?", metavar="VALUE", help="a TOML value, or plain text; - reads it from standard input")
    set_.add_argument("--unset", action="store_true", help="remove the key, so that its default applies")
    check = add(
        actions,
        "check",
        "config",
        "say what is wrong with config.toml, line by line",
        more="Exit code 1 if a key is misspelt or a value is not valid.",
    )
    check.set_defaults(action="check")
    check.add_argument("file", nargs="?", metavar="FILE", help="check this file instead")
    add_json(check)
    sample = add(actions, "sample", "config", "print a config.toml that has everything in it, to copy from")
    sample.set_defaults(action="sample")
