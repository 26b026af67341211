"""Talks to `native/driver.c`: the accelerator's pure parts behind a pipe."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.accelerator.config import Address, Counters, TreeConfig, parse_counters
from testbed.accelerator.twin import Sent


class Driver:
    """The program's counterpart of `twin.Accelerator`."""

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

    def start(self, incarnation: int = 1, slots: int = 1000, fan_in: int = 64) -> None:
        self.ask(f"start {incarnation} {slots} {fan_in}")

    def control(self, line: str) -> str:
        (answer,) = self.ask(f"control {line}")
        return answer

    def open(self, config: TreeConfig) -> None:
        assert self.control(f"open {config.words()}") == "ok"

    def handle(
        self, data: bytes, source: Address, now_us: int, congested: bool = False
    ) -> list[Sent]:
        lines = self.ask(f"packet {now_us} {int(congested)} {source.ip} {source.port} {data.hex()}")
        pairs = [line.split() for line in lines]
        return [Sent(Address.parse(to), bytes.fromhex(text)) for to, text in pairs]

    def counters(self) -> Counters:
        return parse_counters(self.ask("counters"))

    def close(self) -> int:
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(30)
