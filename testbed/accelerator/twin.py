"""The accelerator's state machine, readable: what the program in `native/` must do.

It is pure: a packet, where it came from and the time go in, packets to send come out. It has no
timers. That rests on one property: what a member contributes to a sequence never changes, so any
packet may be lost, doubled, late or summed again, and every sum is the same. `docs/protocol.md` has
the argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from testbed.accelerator.config import Address, Counters, ProcessCounters, TreeConfig, TreeCounters
from workloads.innetwork.protocol import (
    DONE_BITS,
    NO_CHILD,
    NO_FLAGS,
    Areas,
    Flag,
    Packet,
    PacketError,
    PacketType,
    check,
    decode,
    encode,
)

REORDER_PACKETS = 3  # as QUIC's packet threshold, RFC 9002 section 6.1.1
SEEN_NUMBERS = 64
JUMP_NUMBERS = 1024  # a sender that was started anew
BASE_PERIOD_US = 10_000_000
_U16, _U32, _U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


def serial_difference(number: int, other: int) -> int:
    """Return `number - other` for numbers of 32 bits that wrap around (RFC 1982)."""
    return ((number - other + (1 << 31)) & _U32) - (1 << 31)


@dataclass(frozen=True)
class Sent:
    """A packet on its way out."""

    destination: Address
    data: bytes


@dataclass
class Arrivals:
    """Which packet numbers of one child came in, and how long they queued."""

    highest: int | None = None
    seen: int = 0  # bit i: highest - i came in
    base_us: int | None = None  # least transit time of the current period, and of the one before
    base_before_us: int = 0
    period_start_us: int = 0

    def missing_after(self, number: int) -> list[int]:
        """Take note of a number and return those that are lost, each once."""
        if self.highest is None or abs(serial_difference(number, self.highest)) > JUMP_NUMBERS:
            self.highest, self.seen = number, (1 << SEEN_NUMBERS) - 1
            return []
        ahead = serial_difference(number, self.highest)
        if ahead <= 0:
            self.seen |= (1 << -ahead) & _U64
            return []
        missing = [(number - back) & _U32 for back in self._newly_lost(ahead)]
        self.highest, self.seen = number, (self.seen << ahead | 1) & _U64
        return missing

    def _newly_lost(self, ahead: int) -> Iterator[int]:
        """Distances back from the new highest that only now are `REORDER_PACKETS` or more."""
        farthest = min(ahead + REORDER_PACKETS - 1, SEEN_NUMBERS)
        for back in range(farthest, REORDER_PACKETS - 1, -1):
            before = back - ahead  # distance from the old highest
            if before < 0 or not self.seen >> before & 1:
                yield back

    def queueing_us(self, now_us: int, sent_us: int) -> int:
        """Return by how much this transit time exceeds the least of the last 10 to 20 s."""
        transit = (now_us - sent_us) & _U32
        if self.base_us is None:
            self.base_us = self.base_before_us = transit
            self.period_start_us = now_us
        if now_us - self.period_start_us >= BASE_PERIOD_US:
            self.base_before_us, self.base_us, self.period_start_us = self.base_us, transit, now_us
        if serial_difference(transit, self.base_us) < 0:
            self.base_us = transit
        least = self.base_us
        if serial_difference(self.base_before_us, least) < 0:
            least = self.base_before_us
        return (transit - least) & _U32


@dataclass
class Set:
    """The sum of one sequence: being filled, or complete and kept for those who missed it."""

    sequence: int | None = None
    received: int = 0  # bit by child
    complete: bool = False
    leaves: int = 0
    congested: Flag = NO_FLAGS
    delay_us: int = 0
    areas: Areas = field(default_factory=Areas)
    sent_us: int | None = None
    requested_us: int | None = None

    def is_newer_than(self, sequence: int) -> bool:
        """Whether this set has gone on to a later sequence."""
        return self.sequence is not None and self.sequence > sequence

    def has_complete(self, sequence: int) -> bool:
        """Whether this is the complete sum of a sequence."""
        return self.complete and self.sequence == sequence


class TreeState:
    """One accelerator's part in one tree."""

    def __init__(self, config: TreeConfig, incarnation: int) -> None:
        self.config = config
        self.count = TreeCounters()
        self._incarnation = incarnation
        self._sets = [Set() for _ in range(2 * config.window)]
        self._arrivals = [Arrivals() for _ in config.children]
        self._number = 0
        self._ring: dict[int, tuple[int, int]] = {}
        self._ring_size = max(64, 1 << (4 * config.window - 1).bit_length())
        self._newest = 0
        self._unannounced = False
        self._out: list[Sent] = []

    def handle(
        self, data: bytes, packet: Packet, source: Address, now_us: int, congested: bool
    ) -> list[Sent]:
        """Take in a packet of this tree; return what is to be sent because of it."""
        self.count.packets += 1
        self.count.packet_bytes += len(data)
        self._out = []
        if self._is_for_here(packet, source):
            if int.from_bytes(data[56:64], "little") != check(data, self.config.key):
                self.count.corrupt += 1
            else:
                self._obey(packet, now_us, congested)
        self.count.sent += len(self._out)
        return self._out

    def _is_for_here(self, packet: Packet, source: Address) -> bool:
        root = self.config.is_root
        wanted = {PacketType.DATA, PacketType.ASK, PacketType.FLUSH}
        if packet.type not in (wanted if root else wanted | {PacketType.RESEND}):
            self.count.stray += 1
            return False
        if packet.type == PacketType.RESEND or self._is_from(packet, source):
            return True
        self.count.foreign += 1
        return False

    def _is_from(self, packet: Packet, source: Address) -> bool:
        members, children = self.config.members, self.config.children
        asks = packet.type == PacketType.ASK or Flag.ASKING in packet.flags
        if self.config.is_root and asks and packet.member >= len(members):
            return False
        if packet.child == NO_CHILD and packet.type == PacketType.ASK and self.config.is_root:
            return members[packet.member] == source
        return packet.child < len(children) and children[packet.child] == source

    def _obey(self, packet: Packet, now_us: int, congested: bool) -> None:
        if packet.type == PacketType.DATA:
            self._take_data(packet, now_us, congested)
        elif packet.type == PacketType.FLUSH:
            self._take_flush(packet, now_us)
        elif packet.type == PacketType.ASK:
            self._take_ask(packet, now_us)
        else:
            self._take_resend(packet, now_us)

    # --- what children send ----------------------------------------------------------------------

    def _take_data(self, packet: Packet, now_us: int, congested: bool) -> None:
        queueing_us = self._note_arrival(packet, now_us)
        at = self._set_at(packet.sequence)
        if at.is_newer_than(packet.sequence):
            self.count.stale += 1
        elif at.sequence == packet.sequence and at.received >> packet.child & 1:
            self.count.duplicates += 1
        else:
            at = self._claim(packet.sequence)
            if at.received and not at.areas.fits(Areas.of(packet)):
                self.count.conflicts += 1
            else:
                marks = packet.flags | (Flag.CONGESTED if congested else NO_FLAGS)
                at.congested |= marks & Flag.CONGESTED
                at.delay_us = max(at.delay_us, packet.delay_us, queueing_us)
                self._add(at, packet, now_us)
        if Flag.ASKING in packet.flags:
            self._take_ask(packet, now_us)

    def _note_arrival(self, packet: Packet, now_us: int) -> int:
        arrivals = self._arrivals[packet.child]
        for number in arrivals.missing_after(packet.number):
            self.count.gaps += 1
            self._request(packet.child, now_us, Flag.BY_NUMBER, number=number)
        return arrivals.queueing_us(now_us, packet.sent_us)

    def _set_at(self, sequence: int) -> Set:
        return self._sets[sequence % len(self._sets)]

    def _claim(self, sequence: int) -> Set:
        """Return the set of a sequence, taken from an older one if it was not its own."""
        at = self._set_at(sequence)
        if at.sequence == sequence:
            return at
        if at.received and not at.complete:
            self.count.evictions += 1
        at = self._sets[sequence % len(self._sets)] = Set(sequence)
        return at

    def _add(self, at: Set, packet: Packet, now_us: int) -> None:
        mine = Areas.of(packet)
        at.areas = at.areas.plus(mine) if at.received else mine
        at.received |= 1 << packet.child
        at.leaves = (at.leaves + packet.leaves) & _U16
        self.count.contributions += 1
        if at.received == (1 << len(self.config.children)) - 1:
            at.complete = True
            self.count.sums += 1
            self._pass_on(at, now_us)

    def _take_flush(self, packet: Packet, now_us: int) -> None:
        self.count.flushes += 1
        self._note_arrival(packet, now_us)
        number = self._next_number(None)
        flush = self._packet(PacketType.FLUSH, packet.sequence, now_us, number=number)
        if self.config.up:
            self._send(self.config.up, replace(flush, child=self.config.child))
        for destination in self.config.results:
            self._send(destination, flush)
        if self._unannounced:
            self._announce(now_us)

    # --- what goes on ----------------------------------------------------------------------------

    def _pass_on(self, at: Set, now_us: int) -> None:
        if self.config.up:
            self._send_up(at, now_us, NO_FLAGS)
            return
        assert at.sequence is not None
        result = self._result(at, now_us)
        result = replace(result, number=self._next_number(at.sequence))
        for destination in self.config.results:
            self._send(destination, result)
        self._newest = max(self._newest, at.sequence)
        self._unannounced = bool(self.config.notices)
        if self._unannounced and at.sequence % self.config.notice_every == (
            self.config.notice_every - 1
        ):
            self._announce(now_us)

    def _send_up(self, at: Set, now_us: int, flags: Flag) -> None:
        assert at.sequence is not None and self.config.up
        at.sent_us = now_us
        number = self._next_number(at.sequence)
        sum_ = replace(
            self._result(at, now_us), type=PacketType.DATA, child=self.config.child, number=number
        )
        self._send(self.config.up, replace(sum_, flags=sum_.flags | flags))

    def _result(self, at: Set, now_us: int) -> Packet:
        assert at.sequence is not None
        packet = self._packet(PacketType.RESULT, at.sequence, now_us, flags=at.congested)
        packet = replace(packet, leaves=at.leaves, delay_us=at.delay_us)
        return at.areas.put_into(packet)

    def _packet(
        self,
        kind: PacketType,
        sequence: int,
        now_us: int,
        flags: Flag = NO_FLAGS,
        number: int = 0,
        child: int = NO_CHILD,
        member: int = 0,
    ) -> Packet:
        return Packet(
            kind,
            self.config.job,
            self.config.tree,
            sequence,
            child=child,
            member=member,
            number=number,
            flags=flags,
            sent_us=now_us & _U32,
            incarnation=self._incarnation,
        )

    def _send(self, destination: Address, packet: Packet) -> None:
        self._out.append(Sent(destination, encode(packet, self.config.key)))

    def _next_number(self, sequence: int | None) -> int:
        number = self._number
        self._number = (number + 1) & _U32
        place = number % self._ring_size
        self._ring.pop(place, None)
        if sequence is not None:
            self._ring[place] = (number, sequence)
        return number

    def _numbered(self, number: int) -> int | None:
        """Sequence that was sent under a number, while that is remembered."""
        remembered = self._ring.get(number % self._ring_size)
        return remembered[1] if remembered and remembered[0] == number else None

    def _announce(self, now_us: int) -> None:
        self._unannounced = False
        for destination in self.config.notices:
            self.count.notices += 1
            self._send(destination, self._done(self._newest, now_us))

    def _done(self, sequence: int, now_us: int) -> Packet:
        bitmap = 0
        for back in range(min(DONE_BITS, sequence + 1)):
            at = self._set_at(sequence - back)
            if at.has_complete(sequence - back) or at.is_newer_than(sequence - back):
                bitmap |= 1 << back
        packet = self._packet(PacketType.DONE, sequence, now_us)
        return replace(packet, max_area=bitmap.to_bytes(8, "little"))

    # --- what is asked for -----------------------------------------------------------------------

    def _take_ask(self, packet: Packet, now_us: int) -> None:
        self.count.asks += 1
        sequence: int | None = packet.sequence
        if Flag.BY_NUMBER in packet.flags and packet.type == PacketType.ASK:
            sequence = self._numbered(packet.number) if self.config.is_root else None
        if sequence is not None:
            self._look_for(sequence, packet, now_us)
        if self.config.up:
            flags = packet.flags & (Flag.BY_NUMBER | Flag.HEADER_ONLY)
            number = packet.number
            if packet.type == PacketType.DATA:
                flags, number = NO_FLAGS, 0
            ask = self._packet(PacketType.ASK, packet.sequence, now_us, flags, number)
            ask = replace(ask, child=self.config.child, member=packet.member)
            self._send(self.config.up, ask)

    def _look_for(self, sequence: int, packet: Packet, now_us: int) -> None:
        at = self._set_at(sequence)
        if not at.is_newer_than(sequence):
            at = self._claim(sequence)
            if not at.complete:
                self._request_missing(at, now_us)
                return
        if self.config.is_root:
            self._answer(at, sequence, packet, now_us)

    def _answer(self, at: Set, sequence: int, packet: Packet, now_us: int) -> None:
        if packet.type == PacketType.ASK and Flag.HEADER_ONLY in packet.flags:
            self.count.late += 1
            answer = self._done(sequence, now_us)
        elif at.complete and at.sequence == sequence:
            self.count.late += 1
            answer = self._result(at, now_us)
        else:
            self.count.lost += 1
            answer = self._packet(PacketType.LOST, sequence, now_us)
        answer = replace(answer, member=packet.member, flags=answer.flags | Flag.REPEAT)
        self._send(self.config.members[packet.member], answer)

    def _request_missing(self, at: Set, now_us: int) -> None:
        assert at.sequence is not None
        if at.requested_us is not None and now_us - at.requested_us < self.config.hold_us:
            return
        at.requested_us = now_us
        for child in range(len(self.config.children)):
            if not at.received >> child & 1:
                self._request(child, now_us, NO_FLAGS, sequence=at.sequence)

    def _request(
        self, child: int, now_us: int, flags: Flag, sequence: int = 0, number: int = 0
    ) -> None:
        self.count.resends += 1
        resend = self._packet(PacketType.RESEND, sequence, now_us, flags, number, child)
        self._send(self.config.children[child], resend)

    def _take_resend(self, packet: Packet, now_us: int) -> None:
        """The parent lacks a sum: send it again, or ask below for what it consists of."""
        if Flag.BY_NUMBER in packet.flags:
            sequence = self._numbered(packet.number)
            if sequence is not None and self._set_at(sequence).has_complete(sequence):
                self._repeat(self._set_at(sequence), now_us)
            return
        at = self._set_at(packet.sequence)
        if at.is_newer_than(packet.sequence):
            return
        at = self._claim(packet.sequence)
        if not at.complete:
            self._request_missing(at, now_us)
        elif at.sent_us is None or now_us - at.sent_us >= self.config.hold_us:
            self._repeat(at, now_us)

    def _repeat(self, at: Set, now_us: int) -> None:
        self.count.repeats += 1
        self._send_up(at, now_us, Flag.REPEAT)


class Accelerator:
    """All trees of one accelerator."""

    def __init__(self, incarnation: int = 1) -> None:
        self.incarnation = incarnation
        self.count = ProcessCounters()
        self._trees: dict[tuple[int, int], TreeState] = {}

    def open(self, config: TreeConfig) -> None:
        """Take part in a tree from now on, with nothing summed yet."""
        self._trees[config.job, config.tree] = TreeState(config, self.incarnation)

    def close_tree(self, job: int, tree: int) -> None:
        """Forget a tree; its packets are unknown from now on."""
        del self._trees[job, tree]

    def counters(self) -> Counters:
        """Return what was counted so far."""
        return Counters(self.count, {key: state.count for key, state in self._trees.items()})

    def handle(
        self, data: bytes, source: Address, now_us: int, congested: bool = False
    ) -> list[Sent]:
        """Take in what came in; return what is to be sent because of it.

        Args:
            data: UDP payload, of whoever.
            source: where it came from.
            now_us: time on a clock that never goes back.
            congested: whether the IP header was marked (ECN, RFC 3168).
        """
        try:
            packet = decode(data)
        except PacketError:
            self.count.malformed += 1
            return []
        state = self._trees.get((packet.job, packet.tree))
        if state is None:
            self.count.unknown += 1
            return []
        return state.handle(data, packet, source, now_us, congested)
