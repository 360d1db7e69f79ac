"""Attacks by images: masked ones under other names, pipes, devices, and files that claim to be huge."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.golden_exec.play import PNG
from tests.security.house import NEVER, House, attacks, besieged, house, told


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


async def looked_at(place: House, *paths: str, **config: object) -> tuple[dict[str, str], str]:
    """What the model was told for each path, and all that it was sent."""
    calls = {path: ("view_image", {"path": path}) for path in paths}
    async with besieged(attacks(calls), place, {**NEVER, **config}) as (model, client):
        await client.call_tool("codex", prompt="go")
        return told(model.requests[-1]), str(model.requests[-1])


async def test_no_masked_image_is_shown_by_any_name(place: House) -> None:
    folder = place.project / "private"
    folder.mkdir()
    (folder / "face.png").write_bytes(PNG)
    (place.project / "by-link").symlink_to(folder)
    (place.project / "by-file-link").symlink_to(folder / "face.png")
    os.link(folder / "face.png", place.project / "hard.png")
    ours = Path(place.home, ".ssh", "face.png")
    ours.write_bytes(PNG)
    names = ("private/face.png", "by-link/face.png", "by-file-link", "hard.png", "private/../private/face.png", str(ours))
    said, sent = await looked_at(place, *names, **{"understudy.sandbox.mask": ["~/.ssh", str(folder)]})
    assert base64.b64encode(PNG).decode() not in sent
    assert {name: "may not be read" in text for name, text in said.items()} == dict.fromkeys(names, True)


async def test_pipes_devices_and_bombs_are_refused_in_words(place: House) -> None:
    os.mkfifo(place.project / "pipe.png")
    (place.project / "zero.png").symlink_to("/dev/zero")
    (place.project / "bomb.png").write_bytes(PNG[:16] + struct.pack(">II", 60_000, 60_000) + PNG[24:])
    with (place.project / "endless.png").open("wb") as file:
        file.write(PNG)
        file.truncate(1 << 34)
    said, sent = await looked_at(place, "pipe.png", "zero.png", "bomb.png", "endless.png", "/proc/self/environ")
    assert "not a regular file" in said["pipe.png"]
    assert "may not be read" in said["zero.png"]
    assert "60000 x 60000 pixels" in said["bomb.png"]
    assert "larger than 20 MB" in said["endless.png"]
    assert "may not be read" in said["/proc/self/environ"]
    assert "base64," not in sent
