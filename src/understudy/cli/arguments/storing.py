"""Commands about the store of conversations."""

from understudy.cli.arguments.adding import CommandParsers, add
from understudy.config.home import page_path


def add_store(commands: CommandParsers) -> None:
    about = "prepare, check and move the store of conversations"
    store = commands.add_parser("store", help=about, description=f"{about[0].upper()}{about[1:]}: {page_path('many-machines.md')}.")
    store.set_defaults(act=None, help_of=store)
    actions: CommandParsers = store.add_subparsers(metavar="ACTION", title="actions")
    add(actions, "init", "store.init", "make the tables in the configured database, or bring older ones up to date")
    check = add(
        actions,
        "check",
        "store.check",
        "say whether the store answers, and whether what it holds is whole",
        more="Exit code 1 if not.",
    )
    check.add_argument("--full", action="store_true", help="read every record, even if there are very many")
    move = add(
        actions,
        "move",
        "store.move",
        "move all conversations from one store into another, empty one",
        more="Nothing may use them meanwhile. Where they come from, nobody writes any more.",
    )
    for name, metavar in (("source", "FROM"), ("target", "TO")):
        move.add_argument(name, metavar=metavar, help="sqlite, the address of a database without its password, or @FILE with it")
