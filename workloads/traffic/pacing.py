"""How much a flow of a given rate may send now. Pure.

A token bucket: what the network would not take for more than `BURST_S` is not made up for later, so
that a flow that was held up does not come back as a burst above its rate.
"""

from __future__ import annotations

from dataclasses import dataclass

BURST_S = 0.1


@dataclass
class Bucket:
    """Tokens in bytes, filled at a rate.

    Attributes:
        rate_bytes_s: bytes a second.
        least_bytes: what the bucket holds at least, such as one datagram.
        time_s: when it was filled last.
        tokens: bytes that may go now.
    """

    rate_bytes_s: float
    least_bytes: float
    time_s: float
    tokens: float = 0.0

    def fill(self, now_s: float) -> float:
        """Add what came in since the last time, and return what may go."""
        depth = max(self.least_bytes, self.rate_bytes_s * BURST_S)
        earned = max(0.0, now_s - self.time_s) * self.rate_bytes_s
        self.tokens = min(depth, self.tokens + earned)
        self.time_s = now_s
        return self.tokens

    def take(self, sent_bytes: float) -> None:
        """Take out what went."""
        self.tokens -= sent_bytes

    def wait_s(self, wanted_bytes: float) -> float:
        """Return how long until so many bytes may go."""
        return max(0.0, (wanted_bytes - self.tokens) / self.rate_bytes_s)


def bytes_a_second(rate_mbps: float) -> float:
    """Return bytes a second of Mbit/s."""
    return rate_mbps * 1e6 / 8
