"""Commands about questions that wait for an answer."""

from understudy.cli.arguments.adding import ID, CommandParsers, add, add_json


def add_questions(commands: CommandParsers) -> None:
    approvals = add(
        commands,
        "approvals",
        "approvals",
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
        "approvals",
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
