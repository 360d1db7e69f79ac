"""The command that talks with a person."""

from understudy.cli.arguments.adding import ID, CommandParsers, add, add_overrides
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES


def add_chat(commands: CommandParsers) -> None:
    chat = add(
        commands,
        "chat",
        "chat.command",
        "talk with the agent in this terminal",
        more="Without an ID a new conversation begins here; with one it continues, even while another process works in it.",
    )
    chat.add_argument("id", nargs="?", metavar="ID", help=ID)
    chat.add_argument("--last", action="store_true", help="continue the newest conversation of this folder")
    chat.add_argument("-m", "--model", metavar="MODEL", help="the model to ask")
    chat.add_argument("-C", "--cd", dest="cwd", metavar="DIR", help="work in this folder")
    chat.add_argument("-s", "--sandbox", choices=SANDBOX_MODES, help="what commands may write")
    chat.add_argument(
        "-a",
        "--ask-for-approval",
        dest="approval_policy",
        choices=APPROVAL_POLICIES,
        help="when to ask you first",
    )
    chat.add_argument("-p", "--profile", metavar="NAME", help="use this profile of the configuration")
    chat.add_argument(
        "-i",
        "--image",
        dest="images",
        action="append",
        default=[],
        metavar="FILE",
        help="an image that goes with the first message; may be given again",
    )
    chat.add_argument(
        "--budget",
        action="append",
        default=[],
        metavar="LIMIT=N",
        help="ask before a turn uses more: tokens, cost_usd, seconds or requests",
    )
    add_overrides(chat)
