"""What an end of a flow has counted, shared between the thread that counts and the one that tells.

A flow's thread replaces the whole value, which Python does in one step, so that a reader never sees
half of a change.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SENT, RECEIVED = "sent", "received"


@dataclass(frozen=True)
class Counts:
    """Totals since the flow began.

    Attributes:
        bytes: payload; what TCP sent again is in it on the sending side.
        packets: datagrams of UDP, 0 for TCP.
        retransmitted_bytes: what TCP sent again.
        out_of_order: datagrams that were overtaken.
        delay_s: one-way delays of all datagrams, added up.
        jitter_s: smoothed, of UDP.
        rounds: of a tenant's ring.
    """

    bytes: int = 0
    packets: int = 0
    retransmitted_bytes: int = 0
    out_of_order: int = 0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    rounds: int = 0


@dataclass
class Tally:
    """The counts of one end.

    Attributes:
        flow: its name.
        side: `sent` or `received`.
        counts: so far.
        grown: notified whenever a receiver's bytes grow.
    """

    flow: str
    side: str
    counts: Counts = Counts()
    grown: threading.Condition = field(default_factory=threading.Condition)

    def put(self, counts: Counts) -> None:
        """Take over new totals and wake who waits for them."""
        with self.grown:
            self.counts = counts
            self.grown.notify_all()

    def wait_for(self, bytes_: int, timeout_s: float) -> bool:
        """Wait until so many bytes were counted; return whether they were."""
        with self.grown:
            return self.grown.wait_for(lambda: self.counts.bytes >= bytes_, timeout_s)

    def row(self) -> dict[str, Any]:
        """Return the totals, those that are zero left out, ready for JSON."""
        counted = {name: value for name, value in asdict(self.counts).items() if value}
        return {"flow": self.flow, "side": self.side, "bytes": 0, **counted}


def changed_rows(tallies: Sequence[Tally], told: dict[int, Counts]) -> list[dict[str, Any]]:
    """Return rows of the tallies that moved since they were told last, and note that.

    Args:
        tallies: of all ends here.
        told: what was told last, by place.
    """
    rows = []
    for place, tally in enumerate(tallies):
        counts = tally.counts
        if told.get(place) != counts:
            told[place] = counts
            rows.append(tally.row())
    return rows
