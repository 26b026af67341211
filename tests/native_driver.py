"""Talks to a program that `native/driver.h` is part of: pure parts in C, behind a pipe."""

from __future__ import annotations

import subprocess
from pathlib import Path

NATIVE = Path(__file__).parent / "native"


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
