"""Makes the pictures in docs/pictures: the real program in a real terminal, drawn as SVG. Run by `make pictures ARGS="SCENE …"`.

Everything is played on the scripted model, in a temporary home, so pictures need no key and show nothing of the machine's owner.
"""

import asyncio
import fcntl
import json
import os
import pty
import random
import select
import shlex
import shutil
import signal
import string
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pyte

from understudy.testing import McpProcess

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
LONGEST = 60.0  # seconds for one scene
CELL_WIDTH, LINE_HEIGHT, EDGE = 8.4, 18.0, 14.0
PAPER, INK = "#1e1e24", "#d8d8d8"
COLOURS = {
    "black": "#5c6370",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#d8d8d8",
    "brightblack": "#7f848e",
    "brightred": "#ff7b86",
    "brightgreen": "#b5e890",
    "brightbrown": "#ffd98a",
    "brightblue": "#8cc8ff",
    "brightmagenta": "#dd9bff",
    "brightcyan": "#7fd8e4",
    "brightwhite": "#ffffff",
}


HOME = "/home/me"


class Stage(NamedTuple):
    """A home and a project folder for one scene."""

    home: Path
    project: Path

    def script(self, *answers: Any, **settings: str) -> None:
        """Have a scripted model give these answers."""
        path = self.home / "answers.json"
        path.write_text(json.dumps(answers))
        more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        text = f'model_provider = "scripted"\n{more}[understudy]\nscripted_model = {json.dumps(str(path))}\n'
        (self.home / "config.toml").write_text(text)

    def environment(self, columns: int, lines: int) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        size = {"COLUMNS": str(columns), "LINES": str(lines), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        return {**kept, **size, "HOME": str(self.home.parent), "CODEX_HOME": str(self.home)}

    def anonymous(self, text: str) -> str:
        """Without the names of the machine that the picture is made on."""
        names = {str(self.home.parent): HOME, str(ROOT): f"{HOME}/understudy", os.uname().release: "6.12"}
        for name, stand_in in names.items():
            text = text.replace(name, stand_in)
        return text


class Shot(NamedTuple):
    """What to run, and what to type when a text appears. The picture is taken when `until` appears, or when the program ends."""

    words: Sequence[str]
    columns: int = 100
    lines: int = 30
    typed: Sequence[tuple[str, str]] = ()
    until: str | None = None
    drawn: bool = False  # the program draws its screen: texts are looked for there, and not in what it writes


def photograph(stage: Stage, shot: Shot) -> pyte.Screen:
    screen = pyte.Screen(shot.columns, shot.lines)
    stream = pyte.Stream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", shot.lines, shot.columns, 0, 0))
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("understudy")), *shot.words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=stage.project,
        env=stage.environment(shot.columns, shot.lines),
        start_new_session=True,
    )
    os.close(theirs)
    typed, seen, deadline = list(shot.typed), "", time.monotonic() + LONGEST
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SystemExit(f"pictures: {shot.words} did not come to its end:\n{seen[-2000:]}")
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is gone
                chunk = b""
            if not chunk:
                return screen
            text = stage.anonymous(chunk.decode(errors="replace"))
            stream.feed(text)
            seen += text
            shown = seen if not shot.drawn else "\n".join(screen.display)
            if typed and typed[0][0] in shown:
                os.write(ours, typed.pop(0)[1].encode())
                seen = ""
            elif not typed and shot.until is not None and shot.until in shown:
                return screen
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def draw(screen: pyte.Screen, title: str) -> str:
    """The screen without its empty last lines, as SVG: one text element for each run of one style."""
    rows = [row for row in range(screen.lines) if screen.display[row].strip()]
    used = (rows[-1] + 1) if rows else 1
    width, height = screen.columns * CELL_WIDTH + 2 * EDGE, (used + 1.6) * LINE_HEIGHT + EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="{PAPER}"/>',
        f'<text x="{EDGE}" y="{LINE_HEIGHT:.1f}" fill="#7f848e">$ {escape(title)}</text>',
    ]
    for row in range(used):
        y = (row + 2.4) * LINE_HEIGHT
        for start, text, style in _runs(screen, row):
            x = EDGE + start * CELL_WIDTH
            if style.paper:
                top = y - LINE_HEIGHT * 0.75
                size = f'width="{len(text) * CELL_WIDTH:.1f}" height="{LINE_HEIGHT}"'
                parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{style.paper}"/>')
            if text.strip():
                bold = ' font-weight="bold"' if style.bold else ""
                length = f'textLength="{len(text) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"'
                parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{style.ink}"{bold} {length}>{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class Style(NamedTuple):
    ink: str
    paper: str | None
    bold: bool


def _runs(screen: pyte.Screen, row: int) -> list[tuple[int, str, Style]]:
    runs: list[tuple[int, str, Style]] = []
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        ink, paper = _colour(cell.fg, INK), None if cell.bg == "default" else _colour(cell.bg, PAPER)
        style = Style(paper or PAPER, ink, cell.bold) if cell.reverse else Style(ink, paper, cell.bold)
        if runs and runs[-1][2] == style:
            runs[-1] = (runs[-1][0], runs[-1][1] + cell.data, style)
        else:
            runs.append((column, cell.data, style))
    return [(start, text.rstrip() if style.paper is None else text, style) for start, text, style in runs]


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name) or f"#{name}"


# -- the scenes


def demo(_: Stage) -> Shot:
    return Shot(["demo"], columns=110, lines=110)


def resume(stage: Stage) -> Shot:
    """A question that was open when its process was killed, put again at the terminal."""
    push = {"call": "shell", "arguments": {"command": ["git", "push", "origin", "main"]}}
    stage.script([{"say": "The tests pass. I publish the change now."}, push], {"say": "Published."}, approval_policy="untrusted")
    thread = asyncio.run(_leave_at_a_question(stage))
    return Shot(["resume", thread], until="[y]")


async def _leave_at_a_question(stage: Stage) -> str:
    async with McpProcess(cwd=stage.project, home=stage.home) as client:
        client.call_tool("codex", {"prompt": "Publish what is on main", "cwd": str(stage.project)})
        question = await client.next_question()
        await client.kill()
        return str(question.thread)


def doctor(stage: Stage) -> Shot:
    """With faults: a misspelt key, a provider whose key is missing, a folder others may write."""
    (stage.home / "config.toml").write_text('model = "gpt-5"\nmodel_provider = "azure"\naproval_policy = "never"\n')
    return Shot(["doctor"], columns=110, lines=60)


def _many(stage: Stage) -> None:
    titles = (
        "Mend the date parser",
        "Why is the build slow? Look at the caches first, then at the linker",
        "Übersetze die Fehlermeldungen",
        "Tidy up",
    )
    stage.script(*({"say": "Done."} for _ in titles))
    asyncio.run(_begin(stage, titles))


async def _begin(stage: Stage, titles: Sequence[str]) -> None:
    async with McpProcess(cwd=stage.project, home=stage.home) as client:
        for title in titles:
            await client.call_tool("codex", {"prompt": title, "cwd": str(stage.project)})


def conversations(stage: Stage) -> Shot:
    _many(stage)
    return Shot(["conversations"], columns=120)


def conversations_narrow(stage: Stage) -> Shot:
    _many(stage)
    return Shot(["conversations"], columns=40)


BUG = "def mean(numbers):\n    return sum(numbers) / (len(numbers) + 1)\n"
CHECK = "from stats import mean\n\nassert mean([2, 4]) == 3, f'mean of 2 and 4 is {mean([2, 4]):.2f}'\nprint('all well')\n"
MEND = """*** Begin Patch
*** Update File: stats.py
@@
 def mean(numbers):
-    return sum(numbers) / (len(numbers) + 1)
+    return sum(numbers) / len(numbers)
*** End Patch
"""


def exec_(stage: Stage) -> Shot:
    """A bug found and mended, with a plan, from the command line."""
    (stage.project / "stats.py").write_text(BUG)
    (stage.project / "check.py").write_text(CHECK)
    plan = [{"step": "See how it fails", "status": "in_progress"}, {"step": "Mend it", "status": "pending"}]
    done = [{**step, "status": "completed"} for step in plan]
    check = {"call": "shell", "arguments": {"command": ["python3", "check.py"]}}
    usage = {"usage": {"input": 2100, "cached": 1800, "output": 160}}
    stage.script(
        [{"say": "I look at how it fails."}, {"call": "update_plan", "arguments": {"plan": plan}}, check, usage],
        [{"say": "One is added to the count. This takes it away:"}, {"call": "apply_patch", "arguments": {"input": MEND}}, usage],
        [check, {"call": "update_plan", "arguments": {"plan": done}}, usage],
        [{"say": "`mean` divided by one too many. It is mended, and **check.py** passes."}, usage],
    )
    subprocess.run(["git", "init", "-q", stage.project], check=True)
    words = ["exec", "-s", "workspace-write", "python3 check.py fails. Mend it."]
    return Shot(words, columns=90, lines=70)


TEST = {"call": "shell", "arguments": {"command": ["python3", "check.py"]}}
USAGE = {"usage": {"input": 12100, "cached": 9800, "output": 460}}
READY, ENTER = "  scripted ·", "\r"


def _chat(stage: Stage, *answers: Any, **settings: str) -> None:
    (stage.project / "stats.py").write_text(BUG)
    (stage.project / "check.py").write_text(CHECK)
    stage.script(*answers, **settings)


def chat(stage: Stage) -> Shot:
    """At work: an answer with markdown, a folded output, a plan, and a command that runs."""
    text = "The check compares `mean([2, 4])` with 3.\n\n- **stats.py** divides by `len(numbers) + 1`\n- nothing else is used\n"
    plan = [
        {"step": "See how it fails", "status": "completed"},
        {"step": "Mend it", "status": "in_progress"},
        {"step": "Run all tests", "status": "pending"},
    ]
    tests = "for n in 1 2 3 4; do echo test_mean_$n PASSED; done; sleep 50"
    _chat(
        stage,
        [{"call": "shell", "arguments": {"command": ["bash", "-lc", "python3 check.py"]}}, USAGE],
        [{"say": text}, {"call": "update_plan", "arguments": {"plan": plan}}, USAGE],
        [{"call": "shell", "arguments": {"command": ["bash", "-lc", tests]}}, USAGE],
    )
    typed = [(READY, "python3 check.py fails. Mend it." + ENTER), ("PASSED", "keep it small")]
    return Shot(["chat"], columns=90, lines=45, typed=typed, until="working 3 s", drawn=True)


def chat_question(stage: Stage) -> Shot:
    reason = {"with_escalated_permissions": True, "justification": "The tests pass; you asked me to publish."}
    push = {"call": "shell", "arguments": {"command": ["git", "push", "origin", "main"], **reason}}
    _chat(stage, [{"say": "The tests pass. I publish the change now."}, push, USAGE])
    return Shot(["chat"], columns=90, lines=30, typed=[(READY, "Publish it." + ENTER)], until="[y]", drawn=True)


ASKED = [
    {
        "id": "release",
        "header": "Release",
        "question": "Which version shall this be?",
        "options": [
            {"label": "1.4.1", "description": "only the mended mean"},
            {"label": "1.5.0", "description": "with the new spread, too"},
        ],
    }
]


def chat_ask(stage: Stage) -> Shot:
    """The model wants to know something."""
    ask = {"call": "request_user_input", "arguments": {"questions": ASKED}}
    _chat(stage, [{"say": "Both are ready. I need a word from you before I tag it."}, ask, USAGE])
    return Shot(["chat"], columns=90, lines=30, typed=[(READY, "Tag a release." + ENTER)], until="[q]", drawn=True)


def chat_diff(stage: Stage) -> Shot:
    _chat(
        stage,
        [{"say": "One is added to the count. This takes it away:"}, {"call": "apply_patch", "arguments": {"input": MEND}}, USAGE],
        [TEST, USAGE],
        [{"say": "`mean` divided by one too many. It is mended, and **check.py** passes."}, USAGE],
    )
    typed = [(READY, "Mend stats.py" + ENTER), ("changed, /diff", "/diff" + ENTER)]
    return Shot(["chat"], columns=90, lines=45, typed=typed, until="changed by turn", drawn=True)


def chat_narrow(stage: Stage) -> Shot:
    shot = chat_question(stage)
    return shot._replace(columns=40, lines=40)


REVIEW = {
    "findings": [
        {
            "title": "An empty list divides by zero",
            "body": "`mean([])` raised ValueError before; now it ends with ZeroDivisionError, which no caller catches.",
            "severity": "high",
            "file": "stats.py",
            "line": 2,
            "end_line": 2,
            "confidence": 0.9,
        },
        {
            "title": "The test cannot fail",
            "body": "It compares `mean([1])` with itself.",
            "severity": "low",
            "file": "check.py",
            "line": 3,
            "end_line": 3,
            "confidence": 0.8,
        },
    ],
    "overall_correctness": "patch is incorrect",
    "overall_explanation": "Dividing by the length is right, but the check for an empty list got lost.",
    "overall_confidence_score": 0.9,
}


def review(stage: Stage) -> Shot:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words], cwd=stage.project, check=True)

    git("init", "-q")
    (stage.project / "stats.py").write_text("def mean(values):\n    if not values: raise ValueError\n    return sum(values)\n")
    (stage.project / "check.py").write_text("from stats import mean\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (stage.project / "stats.py").write_text("def mean(values):\n    return sum(values) / len(values)\n")
    (stage.project / "check.py").write_text("from stats import mean\n\nassert mean([1]) == mean([1])\n")
    look = {"call": "shell", "arguments": {"command": ["grep", "-rn", "mean(", "."]}}
    usage = {"usage": {"input": 2100, "cached": 1800, "output": 160}}
    stage.script([look, usage], [{"say": json.dumps(REVIEW)}, usage])
    return Shot(["review", "--fail-on", "high"], columns=90, lines=40)


SCENES: dict[str, Callable[[Stage], Shot]] = {
    "review": review,
    "demo": demo,
    "resume": resume,
    "doctor": doctor,
    "exec": exec_,
    "chat": chat,
    "chat-question": chat_question,
    "chat-ask": chat_ask,
    "chat-diff": chat_diff,
    "chat-narrow": chat_narrow,
    "conversations": conversations,
    "conversations-narrow": conversations_narrow,
}


@contextmanager
def home_folder() -> Iterator[Path]:
    """With a path as long as the one in the picture, so that lines break where they would there."""
    while True:
        folder = Path("/tmp", "".join(random.choices(string.ascii_lowercase, k=len(HOME) - len("/tmp/"))))
        try:
            folder.mkdir(mode=0o700)
            break
        except FileExistsError:
            continue
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def main() -> None:
    wanted = sys.argv[1:] or list(SCENES)
    if unknown := [name for name in wanted if name not in SCENES]:
        raise SystemExit(f"pictures: no scene {unknown[0]!r}; there are: {', '.join(SCENES)}")
    PICTURES.mkdir(exist_ok=True)
    for name in wanted:
        with home_folder() as folder:
            stage = Stage(folder / ".codex", folder / "project")
            stage.home.mkdir()
            stage.project.mkdir()
            shot = SCENES[name](stage)
            screen = photograph(stage, shot)
        (PICTURES / f"{name}.svg").write_text(draw(screen, shlex.join(["understudy", *shot.words])))
        print(f"docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()
