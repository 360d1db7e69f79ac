"""Starting our server another way: with options for its interpreter, or through a program of the benchmark's."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]


def python_of(command: tuple[str, ...]) -> str:
    """The interpreter that the server's environment has."""
    python = Path(command[0]).with_name("python")
    return str(python) if python.exists() else sys.executable


def with_python(command: tuple[str, ...], *options: str) -> tuple[str, ...]:
    return (python_of(command), *options, *command)


def through(program: str, command: tuple[str, ...], *arguments: str) -> tuple[str, ...]:
    """The server, started by one of the programs beside this package."""
    return (python_of(command), "-P", str(BENCHMARKS / program), *arguments, *command[1:])
