"""A model that answers by chance: text in pieces, commands, silence, streams that break. It asks for no script."""

from __future__ import annotations

import random
from typing import Any

from understudy.testing import Answer, Entry, ReceivedRequest, ScriptedModel, call, cut_after, deltas, hang, say, status

CALL_IDS = ("c1", "c2", "c3")  # used again and again, as some providers do


class MoodyModel(ScriptedModel):
    """`calm` makes it answer plainly. Every command it wants writes a word of its own to `log`, so that a second run shows."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._reply)
        self._random = random.Random(seed)
        self._commands = 0
        self.calm = False

    def _reply(self, request: ReceivedRequest) -> Entry:
        if self.calm:
            return say("calm")
        mood = self._random.random()
        if mood < 0.35:
            return self._words()
        if mood < 0.75:
            return self._command() if self._random.random() < 0.5 else self._words() + self._command()
        if mood < 0.82:
            return hang(self._random.uniform(0.01, 0.3))
        if mood < 0.90:
            return cut_after(self._words(), abruptly=self._random.random() < 0.5)
        if mood < 0.94:
            return status(self._random.choice([400, 500]), "not now")
        return self._words() + self._command() + self._command()

    def _words(self) -> Answer:
        pieces: list[Any] = []
        for number in range(self._random.randint(1, 6)):
            pieces.append(f"word {number} ")
            if self._random.random() < 0.5:
                pieces.append(self._random.uniform(0, 0.03))
        return deltas(pieces, usage=(3, 2))

    def _command(self) -> Answer:
        self._commands += 1
        word = f"word-{self._commands}"
        pause = self._random.choice(["", "", "; sleep 0.05", "; echo out; sleep 0.2"])
        return call("shell", call_id=self._random.choice(CALL_IDS), command=["sh", "-c", f"echo {word} >> log{pause}"])
