"""QR codes (ISO/IEC 18004) for a link on a terminal: bytes, with the lowest level of error correction, up to version 20.

A code is a square of modules, dark or light. Fixed patterns are drawn first (finders, timing, alignment, format); data and its
error correction fill the rest in columns of two, from the right, and are masked so that large areas are not alike.
"""

from collections.abc import Callable, Iterator
from itertools import product

# For versions 1 to 20 at level L: how many bytes of error correction each block has, and how many blocks there are.
_CORRECTION = (7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28)
_BLOCKS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8)
_LEVEL_L = 1
_BYTES = 0b0100
_PADS = (0xEC, 0x11)
_FORMAT_GENERATOR, _FORMAT_MASK = 0x537, 0x5412
_VERSION_GENERATOR = 0x1F25
_FIELD = 0x11D
QUIET = 4  # modules around it that stay light
_MASKS: tuple[Callable[[int, int], bool], ...] = (
    lambda row, column: (row + column) % 2 == 0,
    lambda row, column: row % 2 == 0,
    lambda row, column: column % 3 == 0,
    lambda row, column: (row + column) % 3 == 0,
    lambda row, column: (row // 2 + column // 3) % 2 == 0,
    lambda row, column: row * column % 2 + row * column % 3 == 0,
    lambda row, column: (row * column % 2 + row * column % 3) % 2 == 0,
    lambda row, column: ((row + column) % 2 + row * column % 3) % 2 == 0,
)

Square = list[list[bool]]


def qr_code(data: bytes) -> Square:
    """Rows of modules, true if dark. Raises `ValueError` if it is too long."""
    version = next((each for each in range(1, len(_BLOCKS) + 1) if _room(each) >= len(data)), None)
    if version is None:
        raise ValueError("too long for a QR code")
    bits = [bit for byte in _with_correction(_padded(data, version), version) for bit in _bits(byte, 8)]
    drawn = [_drawn(version, bits, mask) for mask in range(len(_MASKS))]
    return min(drawn, key=_unevenness)


def as_text(code: Square) -> str:
    """Two rows per line of characters, light on dark like most terminals: draws the light modules."""
    size = len(code) + 2 * QUIET
    light = [[not _at(code, row - QUIET, column - QUIET) for column in range(size)] for row in range(size)]
    light.append([False] * size)
    blocks = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
    return "\n".join("".join(blocks[pair] for pair in zip(light[row], light[row + 1], strict=True)) for row in range(0, size, 2))


def _at(code: Square, row: int, column: int) -> bool:
    return 0 <= row < len(code) and 0 <= column < len(code) and code[row][column]


# -- bytes


def _capacity(version: int) -> int:
    """Bytes of data and correction: of all modules except the fixed patterns."""
    drawn, _ = _frame(version)
    return sum(cell is None for row in drawn for cell in row) // 8


def _room(version: int) -> int:
    """Bytes of data, without the field that contains their number."""
    data = _capacity(version) - _CORRECTION[version - 1] * _BLOCKS[version - 1]
    return data - (2 if version < 10 else 3)


def _padded(data: bytes, version: int) -> list[int]:
    length_bits = 8 if version < 10 else 16
    bits = [*_bits(_BYTES, 4), *_bits(len(data), length_bits), *(bit for byte in data for bit in _bits(byte, 8)), *[False] * 4]
    packed = [sum(bit << (7 - n) for n, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]
    missing = _capacity(version) - _CORRECTION[version - 1] * _BLOCKS[version - 1] - len(packed)
    return packed + [_PADS[n % 2] for n in range(missing)]


def _with_correction(data: list[int], version: int) -> list[int]:
    """The bytes of all blocks in turn, then their corrections likewise. The last blocks may have one byte more."""
    count, length = _BLOCKS[version - 1], _CORRECTION[version - 1]
    short, longer = divmod(len(data), count)
    blocks: list[list[int]] = []
    at = 0
    for n in range(count):
        size = short + (n >= count - longer)
        blocks.append(data[at : at + size])
        at += size
    corrections = [_correction(block, length) for block in blocks]
    return [*_in_turn(blocks), *_in_turn(corrections)]


def _in_turn(blocks: list[list[int]]) -> Iterator[int]:
    for n in range(max(map(len, blocks))):
        yield from (block[n] for block in blocks if n < len(block))


def _correction(data: list[int], length: int) -> list[int]:
    """The remainder of the data divided by the polynomial whose roots are the first powers of two, in the field of 256."""
    divisor = [1]
    root = 1
    for _ in range(length):
        divisor = [
            _times(divisor[n - 1] if n else 0, root) ^ (divisor[n] if n < len(divisor) else 0) for n in range(len(divisor) + 1)
        ]
        root = _times(root, 2)
    rest = [0] * length
    for byte in data:
        factor = byte ^ rest[0]
        rest = [*rest[1:], 0]
        for n, coefficient in enumerate(divisor[1:]):
            rest[n] ^= _times(coefficient, factor)
    return rest


def _times(one: int, other: int) -> int:
    product_ = 0
    while other:
        if other & 1:
            product_ ^= one
        one = one << 1 ^ (_FIELD if one & 0x80 else 0)
        other >>= 1
    return product_


def _bits(number: int, count: int) -> list[bool]:
    return [bool(number >> n & 1) for n in reversed(range(count))]


# -- modules


def _frame(version: int) -> tuple[list[list[bool | None]], int]:
    """The fixed patterns of that version; None where data goes. Also returns the size."""
    size = 17 + 4 * version
    drawn: list[list[bool | None]] = [[None] * size for _ in range(size)]
    for n in range(size):
        drawn[6][n] = drawn[n][6] = n % 2 == 0
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        for row, column in product(range(top - 1, top + 8), range(left - 1, left + 8)):
            if 0 <= row < size and 0 <= column < size:
                drawn[row][column] = max(abs(row - top - 3), abs(column - left - 3)) not in (2, 4)
    places = _alignments(version, size)
    for row, column in product(places, places):
        if (row, column) not in ((6, 6), (6, size - 7), (size - 7, 6)):
            for down, right in product(range(-2, 3), range(-2, 3)):
                drawn[row + down][column + right] = max(abs(down), abs(right)) != 1
    for row, column in _format_places(size, 0) + _format_places(size, 1):
        drawn[row][column] = False
    drawn[size - 8][8] = True
    if version >= 7:
        for n, bit in enumerate(reversed(_bits(version << 12 | _remainder(version << 12, _VERSION_GENERATOR), 18))):
            drawn[n // 3][size - 11 + n % 3] = drawn[size - 11 + n % 3][n // 3] = bit
    return drawn, size


def _alignments(version: int, size: int) -> list[int]:
    """The rows, and columns, of the centres of alignment patterns: as evenly spaced as an even distance allows, counted from the
    end."""
    if version == 1:
        return []
    count = version // 7 + 2
    distance = -(-(size - 13) // (2 * (count - 1))) * 2
    return [6, *reversed([size - 7 - n * distance for n in range(count - 1)])]


def _format_places(size: int, copy: int) -> list[tuple[int, int]]:
    """The places of its bits, the lowest first."""
    if copy == 0:
        rows = [(row, 8) for row in (0, 1, 2, 3, 4, 5, 7, 8)]
        return rows + [(8, column) for column in (7, 5, 4, 3, 2, 1, 0)]
    return [(8, size - 1 - n) for n in range(8)] + [(size - 7 + n, 8) for n in range(7)]


def _remainder(number: int, generator: int) -> int:
    while number.bit_length() >= generator.bit_length():
        number ^= generator << number.bit_length() - generator.bit_length()
    return number


def _drawn(version: int, bits: list[bool], mask: int) -> Square:
    drawn, size = _frame(version)
    left = iter(bits)
    for row, column in _data_places(size):
        if drawn[row][column] is None:
            drawn[row][column] = next(left, False) ^ _MASKS[mask](row, column)
    said = _LEVEL_L << 3 | mask
    form = (said << 10 | _remainder(said << 10, _FORMAT_GENERATOR)) ^ _FORMAT_MASK
    for copy in (0, 1):
        for n, (row, column) in enumerate(_format_places(size, copy)):
            drawn[row][column] = bool(form >> n & 1)
    return [[bool(cell) for cell in row] for row in drawn]


def _data_places(size: int) -> Iterator[tuple[int, int]]:
    """In columns of two from the right, alternately upwards and downwards, skipping the column of the timing pattern."""
    upwards = True
    for right in (column for column in range(size - 1, 0, -2) if column > 6):
        yield from _column(size, right, upwards)
        upwards = not upwards
    for right in (5, 3, 1):
        yield from _column(size, right, upwards)
        upwards = not upwards


def _column(size: int, right: int, upwards: bool) -> Iterator[tuple[int, int]]:
    for row in reversed(range(size)) if upwards else range(size):
        yield row, right
        yield row, right - 1


def _unevenness(code: Square) -> int:
    """How hard a code is to read: long rows or large areas of equal modules, or more of one kind than of the other."""
    size = len(code)
    score = 0
    for line in (*code, *map(list, zip(*code, strict=True))):
        length = 1
        for before, now in zip(line, [*line[1:], not line[-1]], strict=True):
            if before == now:
                length += 1
                continue
            score += length - 2 if length >= 5 else 0
            length = 1
    for row, column in product(range(size - 1), range(size - 1)):
        score += 3 * (code[row][column] == code[row][column + 1] == code[row + 1][column] == code[row + 1][column + 1])
    dark = sum(map(sum, code)) * 100 // (size * size)
    return score + abs(dark - 50) // 5 * 10
