"""Talks to `native/driver.c`: the daemon's pure parts behind a pipe."""

from __future__ import annotations

from tests.native_driver import NativeDriver


class Driver(NativeDriver):
    """Asks `driver.c` one command at a time."""

    def fresh(self, settings: str = "", identity: int = 0, now: int = 0) -> Driver:
        self.ask(f"open {identity}")
        if settings:
            assert self.ask(f"set {now} {settings}") == ["ok"]
        return self

    def released(self, now: int) -> list[tuple[int, int]]:
        pairs = (line.split() for line in self.ask(f"release {now}"))
        return [(int(order), int(release)) for order, release in pairs]
