"""Writes docs/security-evidence.md, and a table of docs/security.md, from the cases that the tests hold the policy to.

Run it as `python docs/generate_security.py` after changing a case; a test fails while a page says something else.
"""

import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
EVIDENCE = ROOT / "docs" / "security-evidence.md"
BEGIN = "<!-- generated: {name} -->"
END = "<!-- end of generated: {name} -->"

sys.path.insert(0, str(ROOT))

from tests.policy.threat_cases import THREAT_CASES, ThreatCase  # noqa: E402
from tests.policy.threat_rows import COMMAND_ROWS, EXTRA_COMMAND_ROWS  # noqa: E402
from tests.security.threat_rows import INJECTION_ROWS, PATCH_ROWS, SANDBOX_ROWS, SERVER_ROWS, Row  # noqa: E402

from understudy.policy.decide import PatchFacts, decide_command, decide_patch  # noqa: E402
from understudy.protocol.choices import ApprovalPolicy, SandboxMode  # noqa: E402
from understudy.text import make_visible, quote_command  # noqa: E402

ABOUT = """# Security: the evidence

What was tried against the [promises](security.md), case by case: made from the tests by `docs/generate_security.py`. Each case
names the tests that show its outcome, by their file below `tests`."""
ABOUT_COMMANDS = """What is decided under `untrusted`. Under the other policies the same commands run in the sandbox without a
question, or outside it after one."""
_LONGEST = 70


def command_table() -> str:
    lines = ["| case | what is tried | commands | verdict |", "| --- | --- | --- | --- |"]
    for (row, verdict), cases in groupby(THREAT_CASES, key=lambda case: (case.row, _verdict(case))):
        lines.append(f"| {row} | {COMMAND_ROWS[row]} | {_listed(tuple(cases))} | {verdict} |")
    lines += [f"| {row} | {what} | | {verdict} |" for row, (what, verdict) in EXTRA_COMMAND_ROWS.items()]
    return "\n".join(lines)


def told_table(rows: Mapping[str, Row]) -> str:
    lines = ["| case | what is tried | outcome | shown by |", "| --- | --- | --- | --- |"]
    lines += [f"| {case} | {row.tried} | {row.outcome} | {'<br>'.join(map(_test, row.shown_by))} |" for case, row in rows.items()]
    return "\n".join(lines)


def patch_decisions() -> str:
    lines = [
        "| approval policy | sandbox mode | inside the roots | outside | on the protected list |",
        "| --- | --- | --- | --- | --- |",
    ]
    for policy in get_args(ApprovalPolicy):
        for mode in get_args(SandboxMode):
            facts = [PatchFacts(policy, mode), PatchFacts(policy, mode, outside=True), PatchFacts(policy, mode, protected=True)]
            cells = " | ".join(decide_patch(fact).action for fact in facts)
            lines.append(f"| `{policy}` | `{mode}` | {cells} |")
    return "\n".join(lines)


def render(page: str) -> str:
    """The page of promises, with its table as the code decides now."""
    begin, end = BEGIN.format(name="patch decisions"), END.format(name="patch decisions")
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{patch_decisions()}\n\n{end}{rest.split(end)[1]}"


def render_evidence() -> str:
    parts = {
        "Commands": f"{ABOUT_COMMANDS}\n\n{command_table()}",
        "Patches": told_table(PATCH_ROWS),
        "The sandbox": told_table(SANDBOX_ROWS),
        "The server": told_table(SERVER_ROWS),
        "Hostile words and files": told_table(INJECTION_ROWS),
    }
    return "\n\n".join([ABOUT, *(f"## {title}\n\n{part}" for title, part in parts.items())]) + "\n"


def _test(shown_by: str) -> str:
    file, _, sentence = shown_by.partition(": ")
    return f"`{file}` {sentence}"


def _verdict(case: ThreatCase) -> str:
    verdict = decide_command(case.given())
    return f"{verdict.action}, in the sandbox" if verdict.action == "allow" else verdict.action


def _listed(cases: tuple[ThreatCase, ...]) -> str:
    """Each command on its own line; a note that holds for several stands after the last of them."""
    following = [*(case.note for case in cases[1:]), ""]
    return "<br>".join(
        _code(case) + (f" ({case.note})" if case.note not in ("", after) else "")
        for case, after in zip(cases, following, strict=True)
    )


def _code(case: ThreatCase) -> str:
    line = make_visible(quote_command(case.argv)).replace("|", "\\|")
    line = line if len(line) <= _LONGEST else line[:_LONGEST] + " …"
    return f"`` {line} ``" if "`" in line else f"`{line}`"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
    EVIDENCE.write_text(render_evidence())
