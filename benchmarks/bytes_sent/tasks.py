"""Tasks as messages and commands, the same for every agent and with the same output, so that bytes show what agents add."""

from dataclasses import dataclass

CODE = "def double(x):\n    return x + 1\n"
TEST = """import unittest
from code_ import double

class T(unittest.TestCase):
    def test_it(self):
        self.assertEqual(double(2), 4)
"""
FILES = {"code_.py": CODE, "test_code.py": TEST, "notes.txt": "a note\n" * 20, "book.txt": "All the world's a stage. " * 4000}


@dataclass(frozen=True)
class Turn:
    prompt: str
    commands: tuple[str, ...] = ()
    answer: str = "Done."


@dataclass(frozen=True)
class Task:
    name: str
    turns: tuple[Turn, ...]

    @property
    def requests(self) -> int:
        """One for each command and one for each answer."""
        return sum(len(turn.commands) + 1 for turn in self.turns)


TASKS = (
    Task("one answer", (Turn("Say hello.", (), "Hello."),)),
    Task("one command", (Turn("What is in notes.txt?", ("cat notes.txt",)),)),
    Task(
        "a bug is mended, in five commands",
        (
            Turn(
                "double in code_.py is wrong. Mend it and run the tests.",
                (
                    "ls",
                    "cat code_.py test_code.py",
                    "python3 -B -m unittest -q 2>&1 | tail -n 3",
                    "sed -i 's/x + 1/x * 2/' code_.py",
                    "python3 -B -m unittest -q 2>&1 | tail -n 3",
                ),
            ),
        ),
    ),
    Task("twenty commands of 2 KB each", (Turn("Read the book.", tuple(f"head -c {2000 + at} book.txt" for at in range(20))),)),
    Task("one command that prints 1 MB", (Turn("Print a lot.", ("yes 0123456789abcdef | head -c 1000000",)),)),
    Task("five messages", tuple(Turn(f"Message {number}.", (), f"Answer {number}.") for number in range(1, 6))),
)
