"""How fast link directions are right now, from the newest rows of `links.csv`. Pure.

The sampler leaves out a direction that stands still. So a direction's last row is also its state at
any later moment up to the newest row of the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW_S = 1.0


@dataclass
class Meter:
    """One direction's counters.

    Attributes:
        bytes: in all.
        packets: in all.
        drops: in all.
        first_bytes: when it was seen first.
        peak_mbps: highest rate of any window that was looked at.
        recent: time and bytes, from just before the window on.
    """

    bytes: int = 0
    packets: int = 0
    drops: int = 0
    first_bytes: int | None = None
    peak_mbps: float = 0.0
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, time_s: float, bytes_: int, packets: int, drops: int) -> None:
        """Take over a row."""
        if self.first_bytes is None:
            self.first_bytes = bytes_
        self.bytes, self.packets, self.drops = bytes_, packets, drops
        self.recent.append((time_s, bytes_))
        while len(self.recent) > 2 and self.recent[1][0] <= time_s - WINDOW_S:
            self.recent.popleft()
        self.peak_mbps = max(self.peak_mbps, self.rate_mbps(time_s))

    def rate_mbps(self, now_s: float) -> float:
        """Return the mean rate of the window that ends now, in Mbit/s."""
        return 8 * (self._at(now_s) - self._at(now_s - WINDOW_S)) / WINDOW_S / 1e6

    def _at(self, time_s: float) -> float:
        before: tuple[float, int] | None = None
        for at, count in self.recent:
            if at > time_s:
                return _between(before, (at, count), time_s)
            before = (at, count)
        return float(before[1]) if before else 0.0


def _between(before: tuple[float, int] | None, after: tuple[float, int], time_s: float) -> float:
    if before is None:
        return float(after[1])
    share = (time_s - before[0]) / (after[0] - before[0])
    return before[1] + share * (after[1] - before[1])


@dataclass
class Meters:
    """The meters of all directions.

    Attributes:
        by_direction: as `NYC>LON`.
        newest_s: UNIX time of the newest row.
    """

    by_direction: dict[str, Meter] = field(default_factory=dict)
    newest_s: float = 0.0

    def take(self, lines: Iterable[str]) -> None:
        """Take over lines of `links.csv`; what is no row is passed over."""
        for line in lines:
            row = _row(line)
            if row is not None:
                time_s, direction, counts = row
                self.by_direction.setdefault(direction, Meter()).add(time_s, *counts)
                self.newest_s = max(self.newest_s, time_s)

    def rate_mbps(self, direction: str) -> float:
        """Return how fast a direction was at the newest row."""
        meter = self.by_direction.get(direction)
        return 0.0 if meter is None else meter.rate_mbps(self.newest_s)


def _row(line: str) -> tuple[float, str, tuple[int, int, int]] | None:
    try:
        time_s, direction, bytes_, packets, drops = line.split(",")
        return float(time_s), direction, (int(bytes_), int(packets), int(drops))
    except ValueError:  # the heading, or a line that a kill cut off
        return None
