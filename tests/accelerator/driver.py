"""Talks to `native/driver.c`: the accelerator's pure parts behind a pipe."""

from __future__ import annotations

from testbed.accelerator.config import Address, Counters, TreeConfig, parse_counters
from testbed.accelerator.twin import Sent
from tests.native_driver import NativeDriver


class Driver(NativeDriver):
    """The program's counterpart of `twin.Accelerator`."""

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
