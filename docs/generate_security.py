"""Writes the tables of docs/security.md from the cases that the tests hold the policy to.

Run it as `python docs/generate_security.py` after changing a case; a test fails while the page says something else.
"""

import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
BEGIN = "<!-- generated: {name} -->"
END = "<!-- end of generated: {name} -->"

sys.path.insert(0, str(ROOT))

from tests.policy.threat_cases import THREAT_CASES, ThreatCase  # noqa: E402
from tests.policy.threat_rows import COMMAND_ROWS, EXTRA_COMMAND_ROWS  # noqa: E402
from tests.security.threat_rows import INJECTION_ROWS, PATCH_ROWS, SANDBOX_ROWS, SERVER_ROWS, Row  # noqa: E402

from understudy.policy.decide import PatchFacts, decide_command, decide_patch  # noqa: E402
from understudy.protocol.choices import ApprovalPolicy, SandboxMode  # noqa: E402
from understudy.text import make_visible, quote_command  # noqa: E402

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
    """The page with its tables as the code has them now."""
    tables = {
        "commands": command_table(),
        "patches": told_table(PATCH_ROWS),
        "patch decisions": patch_decisions(),
        "sandbox": told_table(SANDBOX_ROWS),
        "server": told_table(SERVER_ROWS),
        "injection": told_table(INJECTION_ROWS),
    }
    for name, table in tables.items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        before, rest = page.split(begin)
        after = rest.split(end)[1]
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


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
