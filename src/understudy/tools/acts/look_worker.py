"""Searches or lists files in a process of its own. `looking` starts it and never imports it.

A pattern may backtrack for ever, a disk may hang, a tree may have no end: a process can be limited and killed while the server goes
on. It gets an empty environment, and checks every file that it opens, as `places` does everywhere.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from understudy.places.doer import Doer
from understudy.places.ignoring import BadPattern, Glob
from understudy.places.masks import Masks
from understudy.places.reading import NotForModels, ReadLimits, Unreadable, open_for_model
from understudy.places.tree import MOST_DEPTH, Tree
from understudy.places.walking import FOLDER
from understudy.policy.readable import may_read
from understudy.sandbox.cell import identity, kernel
from understudy.tools.acts.matching_lines import FileText, line_matcher, shown_line
from understudy.tools.acts.needed_words import needed_words
from understudy.tools.acts.ripgrep import files_with

T = TypeVar("T")

CPU_SECONDS = 60
FILE_SECONDS = 1.5  # of computing, for a pattern in one file
MOST_SLOW = 2  # how many files may take longer than that
MEMORY = 2 * 1024 * 1024 * 1024
MOST_FILE_BYTES = 32 * 1024 * 1024
MOST_LISTED = 200_000
BATCH = 256  # files that are open at the same time


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGVTALRM, _give_up)
    job = json.load(sys.stdin)
    try:
        said = _Look(job).run()
    except (NotForModels, BadPattern) as error:
        said = {"error": str(error)}
    except MemoryError:
        said = {"error": "it takes too much memory: simplify `pattern`, or narrow `path` or `glob`"}
    except (OSError, ValueError) as error:
        said = {"error": error.strerror or str(error) if isinstance(error, OSError) else str(error)}
    sys.stdout.write(json.dumps(said))


class _Look:
    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        masks = Masks(job["masks"])
        self._limits = ReadLimits(masks, Unreadable(job["unreadable"], job["roots"]), _pins(job["pins"]))
        self._base: str = job["base"]
        self._opened_base = None if self._base == "/" else os.open(self._base, FOLDER)
        self._may_read = _may_read(job["project"])
        self._glob = Glob(job["glob"])
        self._deadline = time.monotonic() + job["seconds"]
        self._lines: list[str] = []
        self._room: int = job["bytes"]
        self._unsaved: dict[str, str] = job.get("unsaved", {})
        self._start = job["path"].rstrip("/")
        self._files: list[str] = []  # files with a match
        self.notes: list[str] = []
        if job["doer"] is not None:
            masks.note()
            become(Doer(*job["doer"]))

    def run(self) -> dict[str, Any]:
        done = self._search if self._job["do"] == "search" else self._list
        done()
        return {
            "lines": self._lines,
            "notes": self.notes,
            "files": [f"{self._start}/{path}" if path else self._start for path in self._files],
        }

    def _tree(self) -> Tree:
        depth = self._job["depth"] or MOST_DEPTH
        return Tree(self._limits, with_hidden=self._glob.names_hidden, depth=depth, may_read=self._may_read)

    def _late(self) -> bool:
        if time.monotonic() < self._deadline:
            return False
        self.notes.append(f"stopped after {self._job['seconds']} seconds; there may be more: narrow `path` or `glob`")
        return True

    def _say(self, line: str) -> bool:
        """False if there is no more room."""
        self._room -= len(line.encode("utf-8", "replace")) + 1
        if self._room < 0:
            return False
        self._lines.append(line)
        return True

    def _shown(self, path: str) -> str:
        """As the model can use it again; an empty path means the start itself."""
        return self._job["shown"] + path if path else self._job["shown"].rstrip("/")

    # -- search

    def _search(self) -> None:
        matches = line_matcher(self._job["pattern"])
        most = self._job["max_results"]
        count = large = 0
        slow: list[str] = []
        for path, text, may_show in self._texts():
            large += text.cut
            judged = False
            try:
                for number, line, at in _in_time(matches(text.text)):
                    judged = judged or may_show()
                    if not judged:
                        break
                    if count >= most or not self._say(f"{_spelled(self._shown(path))}:{number}:{shown_line(line, at)}"):
                        self.notes.append(f"{count} matches are shown, there are more: narrow `pattern`, `path` or `glob`")
                        return
                    count += 1
                    if not self._files or self._files[-1] != path:
                        self._files.append(path)
            except _TooSlow:
                slow.append(self._shown(path))
            if len(slow) >= MOST_SLOW or self._late():
                break
        if slow:
            self.notes.append(f"the pattern takes too long in {', '.join(slow)}: simplify it; there may be more matches")
        if large:
            self.notes.append(f"of {large} large files only the first {MOST_FILE_BYTES >> 20} MiB were searched")
        if not count and not slow:
            self.notes.append("no matches")

    def _texts(self) -> Iterator[tuple[str, FileText, Callable[[], bool]]]:
        """The files that contain text, by their path below the start. If the start is a file, it is read without a walk, with an
        empty path."""
        try:
            descriptor = open_for_model(self._job["path"], self._limits, base=self._base, opened_base=self._opened_base)
        except NotForModels:
            tree = self._tree()
            yield from self._texts_below(tree)
            if tree.cut:
                self.notes.append("there are more files than were looked at: narrow `path`")
        else:
            with open(descriptor, "rb", buffering=0) as file:
                text = self._typed("") or FileText.read(file, MOST_FILE_BYTES)
            if text is None:
                self.notes.append("it is a binary file, which is not searched")
            else:
                yield "", text, lambda: True

    def _texts_below(self, tree: Tree) -> Iterator[tuple[str, FileText, Callable[[], bool]]]:
        """A few files at a time, so that ripgrep can skip those without a match."""
        program, words = self._job["ripgrep"], needed_words(self._job["pattern"]) if self._job["ripgrep"] else ()
        most = BATCH if words else 1
        batch: list[tuple[str, int]] = []
        try:
            for found in chain(tree.walk(self._job["path"], self._base, self._opened_base), (None,)):
                if found is not None and not found.is_folder and self._glob.fits(found.path):
                    descriptor = tree.open_file(found)
                    if descriptor >= 0:
                        batch.append((found.path, descriptor))
                if len(batch) < most and found is not None:
                    continue
                files = [descriptor for _, descriptor in batch]
                wanted = files_with(program, words, files, MOST_FILE_BYTES, self._deadline) if words else frozenset(files)
                if self._unsaved:
                    wanted |= {descriptor for path, descriptor in batch if self._typed(path) is not None}
                while batch:
                    path, descriptor = batch.pop(0)
                    with open(descriptor, "rb", buffering=0) as file:
                        text = (self._typed(path) or FileText.read(file, MOST_FILE_BYTES)) if descriptor in wanted else None
                        if text is not None:
                            yield path, text, partial(tree.may_show, descriptor)
                    if self._late():
                        return
        finally:
            for _, descriptor in batch:
                os.close(descriptor)

    def _typed(self, path: str) -> FileText | None:
        """What a user has typed in an editor and not saved, instead of what is on the disk."""
        text = self._unsaved.get(f"{self._start}/{path}" if path else self._start) if self._unsaved else None
        return None if text is None else FileText(text.replace("\r\n", "\n"), cut=False)

    # -- list

    def _list(self) -> None:
        tree = self._tree()
        found: list[tuple[str, bool, int]] = []
        for each in tree.walk(self._job["path"], self._base, self._opened_base):
            if len(found) >= MOST_LISTED or self._late():
                tree.cut = True
                break
            if self._job["glob"]:
                if not each.is_folder and self._glob.fits(each.path):
                    found.append((self._shown(each.path), False, each.depth))
            else:
                found.append((self._shown(each.path), each.is_folder, each.depth))
        if self._job["glob"]:
            self._say_all([_spelled(path) for path, _, _ in found], "narrow `path` or `glob`")
        else:
            self._say_tree(found)
        if tree.cut:
            self.notes.append("there are more files than were looked at: narrow `path`")
        if tree.unread:
            self.notes.append(f"{tree.unread} folders cannot be read")
        if not found:
            self.notes.append("no files")

    def _say_tree(self, found: list[tuple[str, bool, int]]) -> None:
        """As many levels as there is room for; a folder whose content is not shown says how much it contains."""
        sizes: dict[int, int] = {}
        for path, _, depth in found:
            sizes[depth] = sizes.get(depth, 0) + len(path.encode("utf-8", "replace")) + 16
        level, used = 1, sizes.get(1, 0)
        while level + 1 in sizes and used + sizes[level + 1] <= self._room:
            level += 1
            used += sizes[level]
        below = _count_below(found, level, self._job["shown"].count("/"))
        deepest = max(sizes, default=0)
        shown = [(path, is_folder, below.get(path, 0)) for path, is_folder, depth in found if depth <= level]
        lines = [_listed(*each) for each in shown]
        self._say_all(lines, "narrow `path`, or give a `glob`")
        if level < deepest:
            self.notes.append(f"{level} of {deepest} levels are shown: give `path` to see more of a folder")

    def _say_all(self, lines: list[str], advice: str) -> None:
        for index, line in enumerate(lines):
            if not self._say(line):
                self.notes.append(f"{index} of {len(lines)} are shown: {advice}")
                return


def _listed(path: str, is_folder: bool, below: int) -> str:
    return _spelled(f"{path}/") + (f" ({below} files)" if below else "") if is_folder else _spelled(path)


def _spelled(path: str) -> str:
    """In JSON's notation if it contains a line break, so that a name cannot be mistaken for lines of ours."""
    return json.dumps(path, ensure_ascii=False) if len(path.splitlines()) > 1 or path.endswith(("\n", "\r")) else path


def _count_below(found: list[tuple[str, bool, int]], level: int, above: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for path, is_folder, depth in found:
        if depth > level and not is_folder:
            top = "/".join(path.split("/")[: above + level])
            counts[top] = counts.get(top, 0) + 1
    return counts


class _TooSlow(Exception):
    """The pattern has used up its time for one file."""


def _give_up(*_: object) -> None:
    raise _TooSlow


def _in_time(found: "Iterator[T]") -> "Iterator[T]":
    """Raises `_TooSlow`. A timer can end it, because matching checks for signals."""
    signal.setitimer(signal.ITIMER_VIRTUAL, FILE_SECONDS)
    try:
        yield from found
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _pins(given: dict[str, list[int]]) -> dict[str, tuple[int, int]]:
    return {path: (device, inode) for path, (device, inode) in given.items()}


def _may_read(project: list[str] | None) -> Callable[[str], bool]:
    """Under `untrusted`, only what a harmless command could read without a question."""
    if project is None:
        return lambda _: True
    roots = tuple(project)
    return lambda path: may_read(path, "/", roots)


def become(doer: Doer) -> None:
    """Take on these rights. Raises OSError; then nothing may be done. For a process with one thread."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_bounding_set()
    if doer.uid != os.geteuid() or not doer.with_groups:
        identity.become(doer.uid, doer.gid)
    kernel.drop_capabilities()


if __name__ == "__main__":
    main()
