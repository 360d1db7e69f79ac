"""Parses the text of a patch into operations. Pure: looks at no file.

Models were trained on this format and on every message, so neither may change.
"""

import msgspec

from understudy.errors import PatchError

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File: "
DELETE = "*** Delete File: "
UPDATE = "*** Update File: "
MOVE = "*** Move to: "
END_OF_FILE = "*** End of File"

# Far more than a model can write in one answer, and so small that the worst patch takes seconds, not minutes.
MAX_PATCH_BYTES = 16 * 1024 * 1024
MAX_OPERATIONS = 2_000
MAX_CHUNKS = 100_000

# Unicode White_Space. `str.strip()` alone would also remove the separators U+001C to U+001F, which are content.
WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_HEREDOC_OPENINGS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_NO_LINES = "Update hunk does not contain any lines"


class PatchSyntaxError(PatchError):
    """The text is not a patch. `line` counts from 1 at the Begin line; without it, the whole text is meant."""

    def __init__(self, detail: str, line: int | None = None) -> None:
        super().__init__(f"invalid patch: {detail}" if line is None else f"invalid hunk at line {line}, {detail}")
        self.detail = detail
        self.line = line

    @property
    def shell_text(self) -> str:
        """The same, in the words of the command line program."""
        return f"Invalid patch: {self.detail}" if self.line is None else f"Invalid patch hunk on line {self.line}: {self.detail}"


class AddOperation(msgspec.Struct, frozen=True):
    path: str
    content: str


class DeleteOperation(msgspec.Struct, frozen=True):
    path: str


class Chunk(msgspec.Struct, frozen=True):
    context: str | None  # a line to find first; the search continues below it
    lines: tuple[str, ...]  # each with its mark: " ", "-" or "+"; an empty one is an empty context line
    at_end: bool = False  # must match the last lines of the file


class UpdateOperation(msgspec.Struct, frozen=True):
    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Operation = AddOperation | DeleteOperation | UpdateOperation


class Patch(msgspec.Struct, frozen=True):
    operations: tuple[Operation, ...]


def parse_patch(text: str) -> Patch:
    """Raises `PatchSyntaxError`. A patch without operations is valid here; the caller decides about it."""
    _check_size(text)
    lines = [line.removesuffix("\r") for line in text.strip(WHITESPACE).split("\n")]
    reader = _PatchReader(_inner_lines(lines))
    operations: list[Operation] = []
    while not reader.done:
        if len(operations) == MAX_OPERATIONS:
            raise PatchSyntaxError(f"it touches more than {MAX_OPERATIONS} files; split it")
        operations.append(reader.operation())
    return Patch(tuple(operations))


def _check_size(text: str) -> None:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise PatchSyntaxError(f"character {error.start} is half of a surrogate pair and cannot be written as UTF-8") from None
    if size > MAX_PATCH_BYTES:
        raise PatchSyntaxError(f"it is {size} bytes long, more than the {MAX_PATCH_BYTES} that are read; split it")


def _inner_lines(lines: list[str]) -> list[str]:
    """The lines between Begin and End. A here-document around them, which models also send, is accepted."""
    complaint = _marker_complaint(lines)
    if complaint and len(lines) >= 4 and lines[0] in _HEREDOC_OPENINGS and lines[-1].endswith("EOF"):
        lines = lines[1:-1]
        complaint = _marker_complaint(lines)
    if complaint:
        raise PatchSyntaxError(complaint)
    return lines[1:-1]


def _marker_complaint(lines: list[str]) -> str | None:
    if lines[0].strip(WHITESPACE) != BEGIN:
        return f"The first line of the patch must be '{BEGIN}'"
    if len(lines) < 2 or lines[-1].strip(WHITESPACE) != END:
        return f"The last line of the patch must be '{END}'"
    return None


class _PatchReader:
    """Reads the lines between the markers. `_at + 2` is the number of the next line, as a person counts."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._chunks = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._lines)

    def operation(self) -> Operation:
        number = self._at + 2
        header = self._lines[self._at].strip(WHITESPACE)
        self._at += 1
        if header.startswith(ADD):
            return AddOperation(header[len(ADD) :], self._added_content())
        if header.startswith(DELETE):
            return DeleteOperation(header[len(DELETE) :])
        if header.startswith(UPDATE):
            return self._update(header[len(UPDATE) :], number)
        raise PatchSyntaxError(
            f"'{header}' is not a valid hunk header. Valid hunk headers: '{ADD}{{path}}', '{DELETE}{{path}}', '{UPDATE}{{path}}'",
            number,
        )

    def _added_content(self) -> str:
        content: list[str] = []
        while not self.done and self._lines[self._at].startswith("+"):
            content.append(self._lines[self._at][1:] + "\n")
            self._at += 1
        return "".join(content)

    def _update(self, path: str, number: int) -> UpdateOperation:
        move_to = None
        if not self.done and self._lines[self._at].startswith(MOVE):
            move_to = self._lines[self._at][len(MOVE) :]
            self._at += 1
        chunks: list[Chunk] = []
        while not self.done:
            line = self._lines[self._at]
            if not line.strip(WHITESPACE):
                self._at += 1
            elif line.startswith("***"):
                break
            else:
                chunks.append(self._chunk(first=not chunks))
        if not chunks:
            raise PatchSyntaxError(f"Update file hunk for path '{path}' is empty", number)
        return UpdateOperation(path, tuple(chunks), move_to)

    def _chunk(self, *, first: bool) -> Chunk:
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise PatchSyntaxError(f"it has more than {MAX_CHUNKS} chunks; split it")
        context = self._context(first=first)
        start = self._at
        at_end = False
        while not self.done:
            line = self._lines[self._at]
            if line == END_OF_FILE and self._at > start:
                at_end = True
                break
            if line and line[0] not in " +-":
                break
            self._at += 1
        lines = tuple(self._lines[start : self._at])
        if not lines:
            raise self._no_chunk_lines()
        self._at += at_end
        return Chunk(context, lines, at_end)

    def _context(self, *, first: bool) -> str | None:
        line = self._lines[self._at]
        if line.rstrip(WHITESPACE) == "@@":
            self._at += 1
            return None
        if line.startswith("@@ "):
            self._at += 1
            return line[3:]
        if first:
            return None
        raise PatchSyntaxError(f"Expected update hunk to start with a @@ context marker, got: '{line}'", self._at + 2)

    def _no_chunk_lines(self) -> PatchSyntaxError:
        line = END_OF_FILE if self.done else self._lines[self._at]
        if line == END_OF_FILE:
            return PatchSyntaxError(_NO_LINES, self._at + 2)
        return PatchSyntaxError(
            f"Unexpected line found in update hunk: '{line}'. "
            "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)",
            self._at + 2,
        )
