"""QR codes, read back by the rules of the standard; and `understudy open --qr`, which draws one."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.http_server import HttpServer
from understudy.cli.serving.qr_code import QUIET, Square, as_text, qr_code

# A module is true where it is dark. What a reader knows of version 1 to 20 at level L: bytes of correction in a block, and blocks.
BLOCKS = {1: (7, 1), 2: (10, 1), 4: (20, 1), 5: (26, 1), 6: (18, 2), 8: (24, 2), 10: (18, 4), 15: (22, 6), 20: (28, 8)}
MASKS = (
    "(i + j) % 2",
    "i % 2",
    "j % 3",
    "(i + j) % 3",
    "(i // 2 + j // 3) % 2",
    "i * j % 2 + i * j % 3",
    "(i * j % 2 + i * j % 3) % 2",
    "((i + j) % 2 + i * j % 3) % 2",
)
ALIGNED = {
    1: [],
    2: [6, 18],
    4: [6, 26],
    5: [6, 30],
    6: [6, 34],
    8: [6, 24, 42],
    10: [6, 28, 50],
    15: [6, 26, 48, 70],
    20: [6, 34, 62, 90],
}


def is_reserved(version: int, row: int, column: int) -> bool:
    size = 17 + 4 * version
    corner = (row < 9 and column < 9) or (row < 9 and column >= size - 8) or (row >= size - 8 and column < 9)
    near = [(top, left) for top, left in product(ALIGNED[version], repeat=2) if max(abs(row - top), abs(column - left)) <= 2]
    last = size - 7
    aligned = any(place not in ((6, 6), (6, last), (last, 6)) for place in near)
    numbered = version >= 7 and ((row < 6 and column >= size - 11) or (column < 6 and row >= size - 11))
    return corner or aligned or numbered or 6 in (row, column)


def bytes_of(code: Square) -> list[int]:
    version = (len(code) - 17) // 4
    size = len(code)
    form = sum(code[8][size - 1 - n] << n for n in range(8)) | sum(code[size - 7 + n][8] << (8 + n) for n in range(7))
    form ^= 0x5412
    assert form >> 13 == 1  # level L
    mask = MASKS[form >> 10 & 7]
    bits: list[int] = []
    columns = [column for column in range(size - 1, -1, -2) if column > 6] + [5, 3, 1]
    for n, right in enumerate(columns):
        rows = range(size) if n % 2 else range(size - 1, -1, -1)
        places = [(row, column) for row in rows for column in (right, right - 1) if not is_reserved(version, row, column)]
        bits += [code[row][column] ^ (eval(mask, {"i": row, "j": column}) == 0) for row, column in places]
    return [int("".join(map(str, map(int, bits[at : at + 8]))), 2) for at in range(0, len(bits) // 8 * 8, 8)]


def read(code: Square) -> bytes:
    """What it says; every block is divided by its generator without a rest."""
    version = (len(code) - 17) // 4
    correction, count = BLOCKS[version]
    taken = bytes_of(code)
    data_bytes = len(taken) - correction * count
    short, longer = divmod(data_bytes, count)
    sizes = [short + (n >= count - longer) for n in range(count)]
    blocks: list[list[int]] = [[] for _ in range(count)]
    left = iter(taken)
    for at in range(max(sizes)):
        for n in range(count):
            if at < sizes[n]:
                blocks[n].append(next(left))
    data = [byte for block in blocks for byte in block]
    for _ in range(correction):
        for block in blocks:
            block.append(next(left))
    assert all(value == 0 for block in blocks for value in syndromes(block, correction))
    stream = "".join(f"{byte:08b}" for byte in data)
    assert stream[:4] == "0100"
    length = 8 if version < 10 else 16
    size = int(stream[4 : 4 + length], 2)
    return bytes(int(stream[at : at + 8], 2) for at in range(4 + length, 4 + length + 8 * size, 8))


def syndromes(block: list[int], count: int) -> Iterator[int]:
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] << 1 ^ (0x11D if powers[-1] & 0x80 else 0))
    logs = {value: n for n, value in enumerate(powers)}
    for root in range(count):
        value = 0
        for byte in block:
            value = (powers[(logs[value] + root) % 255] if value else 0) ^ byte
        yield value


@pytest.mark.parametrize("length", [1, 17, 18, 78, 106, 107, 192, 271, 520, 858])
def test_what_is_written_can_be_read(length: int) -> None:
    said = bytes((n * 7 + 33) % 256 for n in range(length))
    assert read(qr_code(said)) == said


def test_the_smallest_code_as_other_programs_draw_it() -> None:
    """17 bytes fill it, so that there is nothing that two programs could do differently but the mask."""
    code = qr_code(b"understudy open 1")
    assert len(code) == 21
    assert read(code) == b"understudy open 1"
    corner = [[1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 1], [1, 0, 1, 1, 1, 0, 1]]
    assert [[int(cell) for cell in row[:7]] for row in code[:3]] == corner


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        qr_code(b"x" * 859)


async def test_a_phone_is_shown_a_link_that_works_once(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        program = Program(server.home.path, server.cwd)
        ended = await program.run_aside("open", "--qr")
        *lines, link = ended.out.splitlines()
        assert ended.code == 0
        assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/login\?code=\w+", link)
        assert "\n".join(lines) == as_text(qr_code(link.encode()))
        assert len(lines[0]) == len(qr_code(link.encode())) + 2 * QUIET
        assert "leads to this machine alone" in ended.err
        drawn = program.at_terminal("open", "--qr", columns=120)
        assert (drawn.code, "█" in drawn.out) == (0, True)
        narrow = program.at_terminal("open", "--qr", columns=20)
        assert (narrow.code, "make it wider" in narrow.out) == (1, True)
