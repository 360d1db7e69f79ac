"""From the words of `review` to a task that `exec` can run, and from its answer to what is printed."""

import os
import sys

import msgspec

from understudy.cli.exec_input import ExecTask
from understudy.cli.exec_options import ExecRequest
from understudy.cli.review.findings import CORRECT, SCHEMA, Review, Severity, read_review
from understudy.cli.review.formats import WIDTH, Format, as_text, render
from understudy.cli.review.prompt import review_prompt
from understudy.cli.review.target import Kind, read_changes
from understudy.config.model import Config
from understudy.errors import ModelError

FOUND = 3  # the exit code where findings are as bad as `--fail-on` says


class Reviewing(msgspec.Struct, frozen=True):
    """What is made of the answer. `known`: it needs no model, because nothing has changed."""

    root: str
    form: Format
    fail_on: Severity | None
    about: str
    known: Review | None = None

    def read(self, answer: str) -> Review:
        """Raises `ModelError`."""
        return self.known or read_review(answer, self.root)

    def as_message(self, answer: str) -> str:
        """What events say in place of the model's JSON."""
        try:
            return as_text(self.read(answer)).rstrip("\n")
        except ModelError:  # it will be told what is wrong, and tries again
            return answer

    def present(self, answer: str) -> str:
        """What is printed."""
        width = os.get_terminal_size(1).columns if os.isatty(1) else WIDTH
        return render(self.read(answer), self.form, self.fail_on, min(width, WIDTH))

    def exit_code(self, answer: str) -> int:
        return FOUND if self.fail_on is not None and self.read(answer).at_least(self.fail_on) else 0


async def with_review(task: ExecTask, config: Config) -> ExecTask:
    """The task with the changes in its prompt. Raises `AgentError` where it cannot be known what has changed."""
    kind, name = target_of(task.request)
    changes = await read_changes(config, kind, name)
    if changes.left_out:
        count = f"{len(changes.left_out)} of {changes.files} files"
        sys.stderr.write(f"understudy: {count} cannot be shown to the model (too large, or no text); it is told their names\n")
    unchanged = Review((), CORRECT, f"There is nothing to review: git knows of no difference in {changes.about}.", 1.0)
    known = unchanged if not changes.files and not task.request.json else None  # programs that read events expect a turn
    about = f"reviews {changes.about}: {changes.files} file{'s' if changes.files != 1 else ''}"
    reviewing = Reviewing(changes.root, task.request.form or "text", task.request.fail_on, about, known)
    return msgspec.structs.replace(task, prompt=review_prompt(changes, task.prompt), schema=SCHEMA, review=reviewing)


def target_of(request: ExecRequest) -> tuple[Kind, str | None]:
    if request.base is not None:
        return "base", request.base
    if request.commit is not None:
        return "commit", request.commit
    return "uncommitted", None
