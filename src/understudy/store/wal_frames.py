"""How much of a write-ahead log holds, as SQLite reads it after a crash: up to the last commit before a frame that does not fit."""

import struct
from pathlib import Path

HEADER, FRAME_HEADER = 32, 24
_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}  # and the order of bytes in which its checksums are reckoned


def committed_frames(path: Path) -> tuple[bytes, int]:
    """Its salt, which every round through the file has anew, and how many frames hold. Reads all of it."""
    try:
        content = path.read_bytes()
    except OSError:
        return b"", 0
    return committed_in(content)


def committed_in(content: bytes) -> tuple[bytes, int]:
    if len(content) < HEADER:
        return b"", 0
    magic, _, page = struct.unpack_from(">III", content)
    order = _MAGICS.get(magic)
    salt = content[16:24]
    if order is None or not 512 <= page <= 65536:
        return b"", 0
    checksum = _add(order, content[:24], (0, 0))
    if checksum != struct.unpack_from(">II", content, 24):
        return b"", 0
    size = FRAME_HEADER + page
    committed = 0
    for number in range((len(content) - HEADER) // size):
        at = HEADER + number * size
        frame = content[at : at + size]
        if frame[8:16] != salt:
            break
        checksum = _add(order, frame[FRAME_HEADER:], _add(order, frame[:8], checksum))
        if checksum != struct.unpack_from(">II", frame, 16):
            break
        if frame[4:8] != b"\0\0\0\0":  # it ends a commit
            committed = number + 1
    return salt, committed


def _add(order: str, data: bytes, checksum: tuple[int, int]) -> tuple[int, int]:
    first, second = checksum
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & 0xFFFFFFFF
        second = (second + words[place + 1] + first) & 0xFFFFFFFF
    return first, second
