"""Talks to a program that `native/driver.h` is part of: pure parts in C, behind a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from workloads.building import SANITIZED, Recipe

NATIVE = Path(__file__).parent / "native"


def build_sanitized(recipe: Recipe, program: Path, units: Iterable[Path]) -> Path:
    """Compile some of a recipe's units with a test's, under the checks of addresses and of more."""
    return recipe.varied(program, units, (*SANITIZED, f"-I{NATIVE}")).build()


class NativeDriver:
    """Asks the program one command at a time."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, command: str) -> list[str]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line == ".\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the driver ended at {command[:80]!r}")

    def close(self) -> int:
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(30)
