"""Talks to `native/driver.c`: the daemon's pure parts behind a pipe."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Driver:
    """Asks `driver.c` one command at a time."""

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

    def fresh(self, settings: str = "", identity: int = 0, now: int = 0) -> Driver:
        self.ask(f"open {identity}")
        if settings:
            assert self.ask(f"set {now} {settings}") == ["ok"]
        return self

    def released(self, now: int) -> list[tuple[int, int]]:
        pairs = (line.split() for line in self.ask(f"release {now}"))
        return [(int(order), int(release)) for order, release in pairs]

    def close(self) -> int:
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(30)
