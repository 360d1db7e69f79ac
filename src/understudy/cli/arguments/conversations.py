"""Commands that list, show, continue, export and import conversations.

Also the commands for open questions, for checking what was written, and for chatting.
"""

import argparse

from understudy.cli.arguments.adding import (
    ID,
    CommandParsers,
    add,
    add_id_or_last,
    add_json,
    add_overrides,
    count,
    positive,
)
from understudy.config.home import page_path
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES, SEARCH_ROLES


def add_conversations(commands: CommandParsers) -> None:
    listing = add(commands, "conversations", "conversations.conversations", "list conversations, the last active first")
    add_json(listing)
    listing.add_argument("--archived", action="store_true", help="list the archived ones instead")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="list at most N (default: 50; 0 lists all)")
    actions: CommandParsers = listing.add_subparsers(metavar="ACTION", title="actions")
    for name, about in (
        ("delete", "delete conversations for good"),
        ("archive", "take conversations out of the list"),
        ("unarchive", "put conversations back into the list"),
    ):
        action = add(actions, name, "conversations.conversations", about)
        action.set_defaults(action=name)
        action.add_argument("ids", nargs="+", metavar="ID", help=ID)
        if name == "delete":
            action.add_argument("-y", "--yes", action="store_true", help="do not ask first")
    listing.set_defaults(action="list")

    top = add(commands, "top", "conversations.top", "watch what runs, waits and costs now, in all conversations")
    add_json(top, "one object, with the totals and the conversations")
    top.add_argument("--once", action="store_true", help="print it once, and end")
    top.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS", help="how often the screen is drawn anew (default: 2)"
    )

    show = add(commands, "show", "conversations.show", "print a conversation for reading")
    add_id_or_last(show)
    add_json(show, "one event per line, with its sequence number")
    show.add_argument("--full", action="store_true", help="all lines of output and diffs, not just the first ones")

    resume = add(
        commands, "resume", "conversations.resume", "continue a conversation in this terminal", more="Ctrl-C interrupts the turn."
    )
    add_id_or_last(resume)
    resume.set_defaults(command="resume")
    resume.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT",
        help="what to say; - reads it from standard input; without a prompt, a turn that waits for an answer continues",
    )
    resume.add_argument("-m", "--model", help="continue with this model")
    add_json(resume, "one event per line, as it comes")
    add_overrides(resume, "set a key of config.toml for this conversation, from here on")

    compact = add(
        commands, "compact", "conversations.resume", "have the model summarise a conversation, to make room in its context"
    )
    compact.set_defaults(command="compact", prompt="/compact", overrides=[], model=None)
    add_id_or_last(compact)
    add_json(compact, "one event per line, as it comes")

    rename = add(commands, "rename", "conversations.conversations:run_rename", "give a conversation a title")
    rename.add_argument("id", metavar="ID", help=ID)
    rename.add_argument("title", metavar="TITLE", help="one line")

    undo = add(
        commands,
        "undo",
        "conversations.conversations:run_undo",
        "take back the patches of a turn",
        more="Files that were changed since are left alone. The exit code is 0 if all of the turn was taken back.",
    )
    add_id_or_last(undo)
    undo.add_argument("turn", nargs="?", metavar="TURN", help="the number of the turn (default: the last turn that changed files)")


def add_search(commands: CommandParsers) -> None:
    search = add(
        commands,
        "search",
        "conversations.search",
        "find what was said and run, in all conversations",
        more="All words have to be there. One argument may say more: '\"in this order\"', 'begin*', 'this OR that', and behind -- "
        "also -without.",
    )
    search.add_argument("words", nargs="+", metavar="WORDS", help="what to look for")
    search.add_argument("--folder", metavar="DIR", help="only what was said while working in this folder or below it")
    search.add_argument("--since", metavar="TIME", help="not before: 2026-11-19, 2026-11-19T12:00:00Z, or 30m, 12h, 7d, 2w ago")
    search.add_argument("--role", choices=SEARCH_ROLES, help="only what was said or run in this role")
    search.add_argument("--limit", type=positive, default=20, metavar="N", help="at most N hits (default: 20)")
    search.add_argument("--cursor", metavar="NEXT", help="go on where the search before ended, as that says")
    add_json(search, "hits and the cursor of the next page as JSON")


def add_transfer(commands: CommandParsers) -> None:
    export = add(
        commands,
        "export",
        "conversations.transfer",
        "write a conversation to one file: JSON lines, Markdown, or a page to share",
        more="A page has no script and fetches nothing; secrets are masked, and listed at its end.",
    )
    export.set_defaults(action="export")
    add_id_or_last(export)
    export.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    export.add_argument("--force", action="store_true", help="replace FILE if it is there")

    export.add_argument(
        "--format",
        choices=("json", "md", "html"),
        default="json",
        help="json: every record, for `understudy import`; md, html: for people, without secrets (default: json)",
    )

    import_ = add(
        commands,
        "import",
        "conversations.transfer",
        "import conversations from files",
        more="Reads files of `understudy export` and session files of codex (rollout-….jsonl), old and new.",
    )
    import_.set_defaults(action="import")
    import_.add_argument("files", nargs="+", metavar="FILE", help="one file for each conversation; - for standard input")
    import_.add_argument("--new-id", action="store_true", help="import under a new id, even if the old one is free")
    import_.add_argument(
        "--cwd", metavar="DIR", help="the folder it belongs to, if the file names none or that one does not exist here"
    )
    import_.add_argument(
        "--keep-settings",
        action="store_true",
        help="keep its sandbox, approval policy, config keys, session approvals and what an undo needs; only for your own files",
    )
    add_json(import_, "each new conversation as a JSON object")


def add_questions(commands: CommandParsers) -> None:
    approvals = add(
        commands,
        "approvals",
        "conversations.approvals",
        "list the questions that wait for an answer, and answer them",
        more="Of all conversations, whichever program asked. In a terminal you can answer each one; Enter leaves it open.",
    )
    approvals.set_defaults(action="list")
    add_json(approvals)
    approvals.add_argument("--list", action="store_true", dest="only_list", help="only list them, even in a terminal")
    actions: CommandParsers = approvals.add_subparsers(metavar="ACTION", title="actions")
    answer = add(
        actions,
        "answer",
        "conversations.approvals",
        "answer one question",
        more="If the program that asked is gone, its turn continues here. Exit code 1 if the answer does not count.",
    )
    answer.set_defaults(action="answer")
    answer.add_argument("call", metavar="CALL", help="the question's call id or its first characters, or a conversation's id")
    told = "yes, session (yes for the session), no, abort; or words, or an option's number, for what the model wants to know"
    answer.add_argument("answer", metavar="ANSWER", help=told)
    answer.add_argument("more", metavar="ID=ANSWER", nargs="*", help="where the model wants to know several things")
    answer.add_argument("--conversation", metavar="ID", help=f"{ID}; needed if several have a question with this call id")
    answer.add_argument("--word", metavar="TEXT", help="a reason for the model, with a no")
    add_json(answer)


_DIGITS = 64


def add_verify(commands: CommandParsers) -> None:
    verify = add(
        commands,
        "verify",
        "conversations.whole_store:run_verify",
        "check that conversations are what was written, by their digests and seals",
        more="The exit code is 0 if they are, 1 if something is broken, 2 for an unknown id.",
    )
    verify.add_argument("id", nargs="?", metavar="ID", help=f"{ID} (default: all)")
    verify.add_argument("--head", type=_digest, metavar="DIGEST", help="a digest noted earlier: one of its records must have it")
    verify.add_argument(
        "--seal",
        action="store_true",
        help="seal what is whole but not sealed with this machine's key, for example after moving a store",
    )
    verify.add_argument(
        "--page", metavar="FILE", help="instead: check that a page of `export --format html` shows what the store has"
    )
    add_json(verify, "each conversation as a JSON object")


def _digest(text: str) -> str:
    digits = text.lower()
    if len(digits) != _DIGITS or any(digit not in "0123456789abcdef" for digit in digits):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a digest: {_DIGITS} hexadecimal digits, as `understudy verify` prints them"
        )
    return digits


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


def add_store(commands: CommandParsers) -> None:
    about = "prepare, check and move the store of conversations"
    store = commands.add_parser("store", help=about, description=f"{about[0].upper()}{about[1:]}: {page_path('many-machines.md')}.")
    store.set_defaults(act=None, help_of=store)
    actions: CommandParsers = store.add_subparsers(metavar="ACTION", title="actions")
    add(
        actions,
        "init",
        "conversations.whole_store:run_init",
        "make the tables in the configured database, or bring older ones up to date",
    )
    check = add(
        actions,
        "check",
        "conversations.whole_store:run_check",
        "say whether the store answers, and whether what it holds is whole",
        more="Exit code 1 if not.",
    )
    check.add_argument("--full", action="store_true", help="read every record, even if there are very many")
    move = add(
        actions,
        "move",
        "conversations.whole_store:run_move",
        "move all conversations from one store into another, empty one",
        more="Nothing may use them meanwhile. Where they come from, nobody writes any more.",
    )
    for name, metavar in (("source", "FROM"), ("target", "TO")):
        move.add_argument(name, metavar=metavar, help="sqlite, the address of a database without its password, or @FILE with it")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds
