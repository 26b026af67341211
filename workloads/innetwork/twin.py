"""The member's state machine, readable: what the thread in `native/member.c` must do.

It is pure: packets, where they came from and the time go in, packets to send come out. It neither
paces nor measures: it sends what the rules allow at once. `docs/protocol.md` has the rules, and why
a member may send a sequence as soon as it has the results of the one a window before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workloads.innetwork.endpoint import Status, Stream, Uplink, wiring
from workloads.innetwork.job import GroupJob, Place
from workloads.innetwork.protocol import (
    NO_FLAGS,
    Areas,
    Element,
    Flag,
    Packet,
    PacketError,
    PacketType,
    decode,
    encode,
)

REORDER_TOLERANCE = 3
FLUSHES = 3
FLUSH_INTERVAL_US = 4_000
LONGEST_ASK_INTERVAL_US = 2_000_000


@dataclass(frozen=True)
class TwinChunk:
    """What a member contributes to one sequence; a guard must come back as it was sent."""

    areas: Areas
    is_guard: bool = False


@dataclass(frozen=True)
class Sent:
    """A packet on its way out."""

    to: Place
    data: bytes


@dataclass
class Slot:
    """A sequence that was begun: what is sent under it, and the results that came."""

    chunk: TwinChunk
    results: dict[int, Areas] = field(default_factory=dict)
    was_sent: bool = False
    ask_at_us: int | None = None
    asks: int = 0


@dataclass
class Numbers:
    """Which packet numbers of a stream came."""

    incarnation: int | None = None
    highest: int = 0
    seen: set[int] = field(default_factory=set)

    def lost_before(self, packet: Packet) -> list[int]:
        """Take note of a number; return those that it has overtaken by more than the tolerance."""
        if self.incarnation != packet.incarnation:
            self.incarnation, self.highest, self.seen = packet.incarnation, packet.number, set()
            return []
        self.seen.add(packet.number)
        overdue = range(self.highest + 1 - REORDER_TOLERANCE, packet.number + 1 - REORDER_TOLERANCE)
        self.highest = max(self.highest, packet.number)
        first = min(self.seen)
        return [number for number in overdue if number not in self.seen and number > first]


class MemberTwin:
    """One member on all trees of a group.

    Args:
        group: the group.
        me: this member's place in it.
    """

    def __init__(self, group: GroupJob, me: int) -> None:
        wires = wiring(group, me, group.trees)
        self.uplinks, self.streams = wires.uplinks, wires.streams
        self.status = Status.IDLE
        self._group, self._me = group, me
        self._type = PacketType.RESULT if group.kind == "multicast" else PacketType.DATA
        self._sent_numbers: list[list[int]] = [[] for _ in self.uplinks]
        self._numbers = [Numbers() for _ in self.streams]
        self._slots: dict[int, Slot] = {}
        self._early: dict[tuple[int, int], Areas] = {}
        self._first = self._next = self._end = 0
        self._flushes_left, self._flush_at_us = 0, 0
        self._probes, self._quiet_since_us = 0, 0
        self._timeout_us = round(group.round_trip_ms * 1e3) + 40_000

    def begin(self, chunks: Sequence[TwinChunk], now_us: int) -> None:
        """Start to sum a message."""
        self._first, self._end = self._next, self._next + len(chunks)
        forgotten = self._first - 2 * self._group.window
        self._slots = {q: slot for q, slot in self._slots.items() if q >= forgotten}
        self._slots |= {self._first + i: Slot(chunk) for i, chunk in enumerate(chunks)}
        self.status = Status.RUNNING
        self._probes, self._quiet_since_us = 0, now_us
        for (sequence, stream), areas in list(self._early.items()):
            if sequence < self._end:
                del self._early[sequence, stream]
                self._take(sequence, stream, areas, now_us)

    def results(self, stream: int) -> list[Areas]:
        """Return the results of a message that is done, from one stream."""
        return [self._slots[q].results[stream] for q in range(self._first, self._end)]

    def tick(self, now_us: int) -> list[Sent]:
        """Do what is due: send what may be sent, flush, ask."""
        sent: list[Sent] = []
        while self.status == Status.RUNNING and self._may_send(self._next):
            sent += self._send(self._next)
            self._next += 1
            self._quiet_since_us = now_us
            if self._next == self._end:
                self._flushes_left, self._flush_at_us = FLUSHES, now_us
        self._finish_if_done()
        if self._flushes_left and now_us >= self._flush_at_us:
            sent += [self._up(u, PacketType.FLUSH, self._next - 1) for u in self._each_uplink()]
            self._flushes_left -= 1
            self._flush_at_us = now_us + FLUSH_INTERVAL_US
        return sent + self._ask_for_what_is_late(now_us)

    def handle(self, data: bytes, source: str, now_us: int) -> list[Sent]:
        """Take a packet in; whatever is no packet for this member changes nothing."""
        try:
            packet = decode(data, self._group.key)
        except PacketError:
            return []
        stream = next((s for s, one in enumerate(self.streams) if one.tree == packet.tree), None)
        if packet.job != self._group.job or not self._is_believed(packet, stream, source):
            return []
        if packet.type in (PacketType.RESULT, PacketType.FLUSH) and stream is not None:
            return self._on_result(packet, stream, now_us)
        if packet.type in (PacketType.RESEND, PacketType.ASK):
            return self._on_resend(packet, source)
        if packet.type == PacketType.LOST and self._lacks(packet.sequence):
            self.status = Status.LOST
        return []

    def _is_believed(self, packet: Packet, stream: int | None, source: str) -> bool:
        if packet.type == PacketType.RESEND:
            return True
        if packet.type == PacketType.ASK:
            asked = self._group.kind == "multicast"
            return asked and any(source == one.place.address for one in self._group.members)
        return stream is not None and self.streams[stream].source in (None, source)

    def _may_send(self, sequence: int) -> bool:
        before = sequence - self._group.window
        return sequence < self._end and (before < self._first or self._is_complete(before))

    def _is_complete(self, sequence: int) -> bool:
        return len(self._slots[sequence].results) == len(self.streams)

    def _lacks(self, sequence: int) -> bool:
        return self._first <= sequence < self._end and not self._is_complete(sequence)

    def _finish_if_done(self) -> None:
        all_sent = self.status == Status.RUNNING and self._next == self._end
        if all_sent and all(map(self._is_complete, range(self._first, self._end))):
            self.status = Status.DONE

    def _each_uplink(self) -> range:
        return range(len(self.uplinks))

    def _send(self, sequence: int) -> list[Sent]:
        self._slots[sequence].was_sent = True
        return [self._contribution(u, sequence, NO_FLAGS) for u in self._each_uplink()]

    def _contribution(self, uplink: int, sequence: int, flags: Flag) -> Sent:
        return self._up(uplink, self._type, sequence, self._slots[sequence].chunk.areas, flags)

    def _up(
        self,
        uplink: int,
        kind: PacketType,
        sequence: int,
        areas: Areas | None = None,
        flags: Flag = NO_FLAGS,
    ) -> Sent:
        """Return a packet under the next number of an uplink."""
        number = len(self._sent_numbers[uplink])
        self._sent_numbers[uplink].append(sequence)
        up: Uplink = self.uplinks[uplink]
        packet = Packet(
            kind, self._group.job, up.tree, sequence, up.child, self._me, number, flags,
            leaves=0 if areas is None else 1,
        )  # fmt: skip
        whole = packet if areas is None else areas.put_into(packet)
        return Sent(up.to, encode(whole, self._group.key))

    def _ask(self, stream: int, sequence: int, number: int = 0, flags: Flag = NO_FLAGS) -> Sent:
        one: Stream = self.streams[stream]
        packet = Packet(
            PacketType.ASK, self._group.job, one.tree, sequence, one.child, self._me, number, flags
        )
        return Sent(one.ask, encode(packet, self._group.key))

    def _on_result(self, packet: Packet, stream: int, now_us: int) -> list[Sent]:
        asks = []
        if not packet.flags & Flag.REPEAT:
            lost = self._numbers[stream].lost_before(packet)
            asks = [self._ask(stream, 0, number, Flag.BY_NUMBER) for number in lost]
        if packet.type == PacketType.FLUSH:
            return asks
        areas = Areas.of(packet)
        if packet.leaves != self.streams[stream].leaves:
            return asks
        if self._lacks(packet.sequence):
            self._take(packet.sequence, stream, areas, now_us)
        elif self._end <= packet.sequence < self._end + self._group.window:
            self._early[packet.sequence, stream] = areas
        return asks

    def _take(self, sequence: int, stream: int, areas: Areas, now_us: int) -> None:
        slot = self._slots[sequence]
        mine = slot.chunk
        has_nothing = areas.element == Element.NONE and areas.max_area == mine.areas.max_area
        differs = mine.is_guard and areas.max_area != mine.areas.max_area
        if differs or not (areas.fits(mine.areas) or has_nothing):
            self.status = Status.DISAGREE
        else:
            slot.results.setdefault(stream, areas)
            self._probes, self._quiet_since_us = 0, now_us
            self._watch_holes_before(sequence, now_us)
            self._finish_if_done()

    def _watch_holes_before(self, sequence: int, now_us: int) -> None:
        """Later results are here: what is missing before them is not merely late."""
        for before in range(max(self._first, sequence - self._group.window), sequence):
            slot = self._slots[before]
            if not self._is_complete(before) and slot.ask_at_us is None:
                slot.ask_at_us = now_us + self._timeout_us

    def _on_resend(self, packet: Packet, source: str) -> list[Sent]:
        """Send once more what an accelerator, or for `multicast` another member, lacks."""
        uplink = next((u for u, one in enumerate(self.uplinks) if one.tree == packet.tree), None)
        if uplink is None:
            return []
        sequence = packet.sequence
        if packet.flags & Flag.BY_NUMBER:
            numbers = self._sent_numbers[uplink]
            if packet.number >= len(numbers):
                return []
            sequence = numbers[packet.number]
        if sequence not in self._slots or not self._slots[sequence].was_sent:
            return []
        if packet.type == PacketType.RESEND:
            return [self._contribution(uplink, sequence, Flag.REPEAT)]
        asker = next(m.place for m in self._group.members if m.place.address == source)
        repair = self._contribution(uplink, sequence, Flag.REPEAT)
        self._sent_numbers[uplink].pop()  # to one member, apart from the group's numbers
        return [Sent(asker, repair.data)]

    def _ask_for_what_is_late(self, now_us: int) -> list[Sent]:
        if self.status != Status.RUNNING:
            return []
        lacking = [q for q in range(self._first, self._next) if self._lacks(q)]
        overdue = [q for q in lacking if (self._slots[q].ask_at_us or now_us + 1) <= now_us]
        interval_us = min(self._timeout_us << min(self._probes, 5), LONGEST_ASK_INTERVAL_US)
        if not overdue and lacking and now_us - self._quiet_since_us >= interval_us:
            overdue = lacking[:1]
            self._probes, self._quiet_since_us = self._probes + 1, now_us
        return [ask for sequence in overdue for ask in self._ask_again(sequence, now_us)]

    def _ask_again(self, sequence: int, now_us: int) -> list[Sent]:
        slot = self._slots[sequence]
        wait_us = min(self._timeout_us << min(slot.asks, 5), LONGEST_ASK_INTERVAL_US)
        slot.asks, slot.ask_at_us = slot.asks + 1, now_us + wait_us
        missing = [s for s in range(len(self.streams)) if s not in slot.results]
        return [self._ask(stream, sequence) for stream in missing]
