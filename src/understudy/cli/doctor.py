"""`understudy doctor`: what works here, what does not, and what to do about it."""

import json
from argparse import Namespace

from understudy.cli.all_findings import examine
from understudy.cli.ending import ending_tidily
from understudy.cli.finding import Finding


def run(options: Namespace) -> int:
    with ending_tidily():  # what it tries is in a folder of its own
        findings = examine(options)
    broken = any(finding.level == "broken" for finding in findings)
    if options.json:
        print(json.dumps({"ok": not broken, "findings": [finding.as_json() for finding in findings]}, indent=2))
    else:
        _print(findings)
    return 1 if broken else 0


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    from understudy.cli.terminal import Flow, one_line, open_console

    console = open_console()
    marks = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "bold red"), "info": ("·", "dim")}
    section = ""
    for finding in findings:
        if finding.section != section:
            if section:
                console.print()
            section = finding.section
            console.print(Text(section, "bold"))
        mark, style = marks[finding.level]
        flow = Flow(console, first=f"  {mark} ", indent="    ", first_style=style)
        flow.whole(f"{finding.name}: {one_line(finding.text)}")
        for line in finding.details:
            more = Flow(console, first="      ", indent="      ", style="dim")
            more.whole(one_line(line))
    counts = {level: sum(finding.level == level for finding in findings) for level in ("broken", "warning")}
    console.print()
    if counts["broken"]:
        console.print(Text(f"{counts['broken']} broken, {counts['warning']} to look at", "bold red"))
    elif counts["warning"]:
        console.print(Text(f"All works; {counts['warning']} to look at", "bold yellow"))
    else:
        console.print(Text("All works.", "bold green"))
