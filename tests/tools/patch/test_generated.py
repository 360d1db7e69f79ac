"""Generated patches over generated trees: each is applied exactly, or refused with the tree untouched.

The generator knows the outcome from the edits it made, not from the patch it wrote for them.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import PatchError
from understudy.tools.patch.plan import apply_plan, plan_patch

from .tree import patch_text, tree_of

WORDS = (
    "alpha",
    "beta",
    "",
    "    return x",
    "naïve — “quoted”",
    "\tif a:",
    "}",
    "+ plus",
    "- minus",
    "*** stars",
    "@@ at",
    "a\u00a0b",
)
NAMES = ("a.txt", "b", "dir/c.py", "dir/deep/d", "é.md", "with blank.txt", ".hidden", "x/y/z")
FAULTS = (
    *("wrong line", "missing file", "through a link", "to a link", "onto a fifo", "twice", "bad name", "delete a directory"),
    *("not text", "parent is a file", "broken header", "changed meanwhile"),
)


@dataclass
class Case:
    """Lines of a file are (text, ending) pairs."""

    random: Random
    before: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    after: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    patch: list[str] = field(default_factory=list[str])
    fault: str | None = None

    @classmethod
    def drawn(cls, random: Random) -> "Case":
        case = cls(random)
        for name in random.sample(NAMES, random.randint(1, 5)):
            case.before[name] = case._file()
        case.after = dict(case.before)
        for name in random.sample(list(case.before), random.randint(1, len(case.before))):
            random.choice((case._update, case._update, case._move, case._delete, case._overwrite))(name)
        free = [name for name in NAMES if name not in case.before and name not in case.after]
        for name in random.sample(free, random.randint(0, min(2, len(free)))):
            case._add(name)
        if random.random() < 0.5:
            case.fault = random.choice(FAULTS)
        return case

    def _lines(self) -> list[str]:
        return [f"{self.random.choice(WORDS)}{number}" for number in range(self.random.randint(0, 12))]

    def _file(self) -> list[tuple[str, str]]:
        style = self.random.choice((("\n",), ("\n",), ("\r\n",), ("\n", "\r\n"), ("\r",)))
        lines = [(text, self.random.choice(style)) for text in self._lines()]
        if lines and self.random.random() < 0.2:
            lines[-1] = (lines[-1][0], "")
        return lines

    def _update(self, name: str, *, move_to: str | None = None) -> None:
        old = self.before[name]
        new: list[tuple[str, str | None]] = []  # None: an added line, whose ending depends on where it ends up
        chunks: list[str] = []
        at = 0
        while at < len(old):
            skipped = self.random.randint(0, 4)
            new += old[at : at + skipped]
            at += skipped
            if at < len(old):
                chunk, at = self._chunk(old, at, new)
                chunks += chunk
        if not chunks:
            new.append(("appended", None))
            chunks = ["@@", "+appended"]
        self.patch += [f"*** Update File: {name}", *([f"*** Move to: {move_to}"] if move_to else []), *chunks]
        self.after[move_to or name] = self._settled(old, new)
        if move_to:
            self.after.pop(name)

    def _settled(self, old: list[tuple[str, str]], new: list[tuple[str, str | None]]) -> list[tuple[str, str]]:
        first = next((end for _, end in old if "\n" in end), next((end for _, end in old if end), "\n"))
        settled = [(text, end or first) for text, end in new]
        unfinished = bool(old) and not old[-1][1]
        if unfinished and new and not new[-1][1]:
            settled[-1] = (new[-1][0], "")
        return settled

    def _chunk(self, old: list[tuple[str, str]], at: int, new: list[tuple[str, str | None]]) -> tuple[list[str], int]:
        lines = ["@@"]
        if at + 1 < len(old) and self.random.random() < 0.2:
            lines = [f"@@ {old[at][0]}"]
            new.append(old[at])
            at += 1
        for text, end in old[at : at + self.random.randint(1, 4)]:
            kind = self.random.choice(("keep", "keep", "remove", "replace"))
            spelled = self._respelled(text)
            lines.append((" " if kind == "keep" else "-") + spelled)
            if kind == "keep":
                new.append((spelled, end))
            elif kind == "replace":
                lines.append(f"+{text} changed")
                new.append((f"{text} changed", None))
            at += 1
        return lines, at

    def _respelled(self, text: str) -> str:
        """As models write lines from memory: other blanks at the ends, plain quotes."""
        choice = self.random.random()
        if choice < 0.1:
            return text + "  "
        if choice < 0.15:
            return text.replace("“", '"').replace("”", '"').replace("—", "-")
        return text

    def _move(self, name: str) -> None:
        free = [other for other in NAMES if other not in self.before and other not in self.after]
        if free and self.before[name]:
            self._update(name, move_to=self.random.choice(free))
        else:
            self._delete(name)

    def _delete(self, name: str) -> None:
        self.patch.append(f"*** Delete File: {name}")
        self.after.pop(name)

    def _add(self, name: str) -> None:
        lines = self._lines()
        self.patch += [f"*** Add File: {name}", *(f"+{line}" for line in lines)]
        self.after[name] = [(line, "\n") for line in lines]

    def _overwrite(self, name: str) -> None:
        self._add(name)

    def lay_out(self, root: Path) -> None:
        for name, lines in self.before.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes("".join(map("".join, lines)).encode())
            (root / name).chmod(self.random.choice((0o644, 0o755, 0o600)))
        (root / "odd").mkdir()
        (root / "odd/plain").write_text("plain\n")
        (root / "odd/binary").write_bytes(b"\xff\xfe\x00")
        (root / "odd/link").symlink_to("plain")
        (root / "odd/out").symlink_to("..")
        os.mkfifo(root / "odd/fifo")

    def faulty_lines(self) -> list[str]:
        match self.fault:
            case "wrong line":
                return ["*** Update File: odd/plain", "@@", "-not there", "+x"]
            case "missing file":
                return self.random.choice((["*** Delete File: none"], ["*** Update File: none", "@@", "-x"]))
            case "through a link":
                return ["*** Add File: odd/out/new", "+x"]
            case "to a link":
                return self.random.choice((["*** Add File: odd/link", "+x"], ["*** Delete File: odd/link"]))
            case "onto a fifo":
                return ["*** Update File: odd/plain", "*** Move to: odd/fifo", "@@", "-plain"]
            case "twice":
                return ["*** Delete File: odd/plain", "*** Delete File: odd/../odd/plain"]
            case "bad name":
                return ["*** Add File: odd/\x07", "+x"]
            case "delete a directory":
                return ["*** Delete File: odd"]
            case "not text":
                return ["*** Update File: odd/binary", "@@", "+x"]
            case "parent is a file":
                return ["*** Add File: odd/plain/x", "+x"]
            case "broken header":
                return ["*** Remove File: odd/plain"]
            case "changed meanwhile":
                return ["*** Update File: odd/plain", "@@", "-plain", "+x"]
            case _:
                return []

    def text(self) -> str:
        starts = [number for number, line in enumerate(self.patch) if line.startswith(("*** Add", "*** Upd", "*** Del"))]
        place = self.random.choice([*starts, len(self.patch)])
        return patch_text(*self.patch[:place], *self.faulty_lines(), *self.patch[place:])


def run(random: Random) -> None:
    case = Case.drawn(random)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        case.lay_out(root)
        before = tree_of(root)
        text = case.text()
        refusal = None
        try:
            plan = plan_patch(text, str(root))
            if case.fault == "changed meanwhile":
                (root / "odd/plain").write_text("Plain\n")
                before = tree_of(root)
            apply_plan(plan)
        except PatchError as error:
            refusal = error
        assert (refusal is None) == (case.fault is None), f"{case.fault}, {refusal}\n{text}"
        if refusal:
            assert tree_of(root) == before, text
            return
        files = {path: data for path, (kind, _, data) in tree_of(root).items() if kind == "file" and not path.startswith("odd/")}
        assert files == {path: "".join(map("".join, lines)).encode() for path, lines in case.after.items()}, text
        kept = {path: mode for path, (_, mode, _) in before.items()}
        assert all(mode == kept[path] for path, (_, mode, _) in tree_of(root).items() if path in kept)


_randoms = st.randoms(use_true_random=True)  # whole cases are drawn anew; shrinking them call by call takes long and helps little
_quiet = (HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=_quiet)
@given(_randoms)
def test_two_hundred_patches_are_exact_or_refused(random: Random) -> None:
    run(random)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=_quiet)
@given(_randoms)
def test_five_thousand_patches_are_exact_or_refused(random: Random) -> None:
    run(random)
