"""Gloo's ring all-reduce in time: who waits for whom. Pure.

A member works through its segments in order, in each of the two phases (`workloads.collectives.
ring` has their sizes), and never has more than two under way: it asks for the next and sends the
next only after those two places before have been received and sent. And gloo never sends unasked:
the data of a segment leaves only when the receiver has said that it is ready for it
(`gloo/allreduce.cc`, `ring`; `gloo/transport/tcp/pair.cc`, notifications of unbound buffers).

So a hop moves two segments a round trip at most, whatever its rate. Over a WAN that is the ring's
time: 2(N-1) round trips of the longest hop, where the ring's bound has 2(N-1) one-way delays of all
hops in turn. No setting of TCP changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from testbed.emulation.settings import TcpSettings
from testbed.measure.predict import FRAME_HEADER_BYTES
from testbed.measure.tcp_model import Connection
from testbed.measure.wires_model import Wires
from workloads.collectives.ring import HEADER_BYTES, segmentation

UNDER_WAY = 2
READY_BYTES = FRAME_HEADER_BYTES + HEADER_BYTES
ELEMENT_BYTES = 4


class Ring:
    """A clique in the order in which its data flow, round after round on the same connections."""

    def __init__(
        self,
        wires: Wires,
        sites: Sequence[str],
        message_bytes: int,
        tcp: TcpSettings,
        packet_segments: int = 1,
    ) -> None:
        self._wires, self.sites = wires, tuple(sites)
        count = len(self.sites)
        self._sizes = [_sizes_sent(message_bytes, count, place) for place in range(count)]
        hops = [(one, self.sites[(place + 1) % count]) for place, one in enumerate(self.sites)]
        self.forward = [Connection(wires, hop, tcp, packet_segments) for hop in hops]
        self.backward = [Connection(wires, (b, a), tcp) for a, b in hops]
        self.ended_s = 0.0
        self._members: list[_Member] = []

    def start(self) -> None:
        """Begin a round now; it has ended when the wires are at rest, at `ended_s`."""
        count = len(self.sites)
        self._members = [_Member(self, place) for place in range(count)]
        for member in self._members:
            member.go_on()

    def sizes(self, place: int) -> Sequence[float]:
        """Return the segments that the member at a place sends, in order."""
        return self._sizes[place % len(self.sites)]

    def member(self, place: int) -> _Member:
        """Return the member at a place, counted around."""
        return self._members[place % len(self.sites)]

    def end(self) -> None:
        """Note that a member has all it needs."""
        self.ended_s = self._wires.now_s


class _Member:
    """One member's way through the segments of one round."""

    def __init__(self, ring: Ring, place: int) -> None:
        self._ring, self._place = ring, place
        self._outgoing, self._incoming = ring.sizes(place), ring.sizes(place - 1)
        self._steps = len(self._outgoing)
        self._issued = self._begun = self._asked_for = 0
        self._sent = [size == 0 for size in self._outgoing]
        self._received = [size == 0 for size in self._incoming]

    def go_on(self) -> None:
        """Issue every step whose turn it is."""
        while self._issued < self._steps and self._may_issue(self._issued):
            self._issued += 1
            if self._incoming[self._issued - 1]:
                back = self._ring.backward[(self._place - 1) % len(self._ring.sites)]
                back.notify(READY_BYTES, self._ring.member(self._place - 1).be_asked)
            else:
                self._ring.member(self._place - 1).be_asked()
            self._send_what_may()
        if self._issued == self._steps and all(self._received) and all(self._sent):
            self._ring.end()

    def be_asked(self) -> None:
        """Take note that the successor is ready for one more segment."""
        self._asked_for += 1
        self._send_what_may()

    def _may_issue(self, step: int) -> bool:
        """Gathering begins when all of reducing is done; else two steps may be under way."""
        half = self._steps // 2
        first = half - UNDER_WAY if step == half else step - UNDER_WAY
        last = half if step == half else step - UNDER_WAY + 1
        before = range(max(first, 0 if step <= half else half), max(last, 0))
        return all(self._sent[one] and self._received[one] for one in before)

    def _send_what_may(self) -> None:
        while self._begun < min(self._issued, self._asked_for):
            step, self._begun = self._begun, self._begun + 1
            size = self._outgoing[step]
            if size:
                ended = partial(self._ring.member(self._place + 1).receive, step)
                connection = self._ring.forward[self._place]
                connection.offer(size + HEADER_BYTES, partial(self._have_sent, step), ended)
            else:
                self._ring.member(self._place + 1).receive(step)

    def _have_sent(self, step: int) -> None:
        self._sent[step] = True
        self.go_on()

    def receive(self, step: int) -> None:
        """Take a segment from the predecessor."""
        self._received[step] = True
        self.go_on()


def _sizes_sent(message_bytes: int, members: int, place: int) -> list[float]:
    """Return the bytes of each segment that a member sends, in order, both phases.

    Gloo sends from each rank to the one before, so ranks run against the data.
    """
    cut = segmentation(message_bytes, members, ELEMENT_BYTES)
    rank, each = members - 1 - place, cut.segments_per_chunk
    steps = range(cut.segments - each)
    numbers = [(first * each + step) % cut.segments for first in (rank + 1, rank) for step in steps]
    left = [message_bytes - number * cut.segment_bytes for number in numbers]
    return [float(min(max(one, 0), cut.segment_bytes)) for one in left]
