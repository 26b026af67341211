"""A member of a clique by the rules of `docs/protocol.md`, as plain as they can be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.accelerator.config import Address
from testbed.accelerator.twin import Arrivals, Sent
from workloads.innetwork.protocol import (
    NO_CHILD,
    Areas,
    Flag,
    Packet,
    PacketType,
    decode,
    encode,
)

FLUSHES = 3


@dataclass(frozen=True)
class Branch:
    """How a member takes part in one tree."""

    tree: int
    up: Address
    child: int = NO_CHILD  # contributes nothing
    receives: bool = False


@dataclass
class Member:
    """Contributes to every tree it is a child in, and wants all results of the one it receives."""

    index: int
    job: int
    key: int
    window: int
    branches: Sequence[Branch]
    areas: Sequence[Areas]
    timeout_us: int
    results: dict[int, tuple[int, Areas]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    sent: int = 0  # sequences sent so far
    flushes: int = 0
    due_us: int = 0
    numbers: dict[int, list[int]] = field(default_factory=dict)
    done: dict[int, set[int]] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=Arrivals)

    @property
    def own(self) -> Branch:
        return next(branch for branch in self.branches if branch.receives)

    @property
    def finished(self) -> bool:
        return len(self.results) == len(self.areas)

    def _packet(self, branch: Branch, kind: PacketType, now_us: int, sequence: int) -> Packet:
        return Packet(
            kind,
            self.job,
            branch.tree,
            sequence,
            child=branch.child,
            member=self.index,
            sent_us=now_us & 0xFFFFFFFF,
        )

    def _out(self, branch: Branch, packet: Packet) -> Sent:
        return Sent(branch.up, encode(packet, self.key))

    def _numbered(self, branch: Branch, packet: Packet) -> Sent:
        numbers = self.numbers.setdefault(branch.tree, [])
        numbers.append(packet.sequence if packet.type == PacketType.DATA else -1)
        return self._out(branch, replace(packet, number=len(numbers) - 1))

    def _contribution(self, branch: Branch, sequence: int, now_us: int) -> Sent:
        packet = self._packet(branch, PacketType.DATA, now_us, sequence)
        return self._numbered(branch, self.areas[sequence].put_into(replace(packet, leaves=1)))

    def _contributes(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.child != NO_CHILD]

    def _permitted(self) -> bool:
        before = self.sent - self.window
        return self.sent < len(self.areas) and (before < 0 or before in self.results)

    def go_on(self, now_us: int) -> list[Sent]:
        """Send what may be sent, and ask for what is overdue."""
        out: list[Sent] = []
        while self._permitted():
            out += [self._contribution(it, self.sent, now_us) for it in self._contributes()]
            self.sent += 1
            self.due_us = now_us + self.timeout_us
        if self.sent == len(self.areas) and self.flushes < FLUSHES:
            self.flushes += 1
            for branch in self._contributes():
                out.append(
                    self._numbered(branch, self._packet(branch, PacketType.FLUSH, now_us, 0))
                )
        if now_us >= self.due_us:
            self.due_us = now_us + self.timeout_us
            out += [self._ask(sequence, now_us) for sequence in self._outstanding()]
        return out

    def _outstanding(self) -> list[int]:
        return [sequence for sequence in range(self.sent) if sequence not in self.results]

    def _ask(self, sequence: int, now_us: int) -> Sent:
        return self._out(self.own, self._packet(self.own, PacketType.ASK, now_us, sequence))

    def handle(self, data: bytes, now_us: int) -> list[Sent]:
        packet = decode(data, self.key)
        if packet.type == PacketType.RESEND:
            return self._resend(packet, now_us)
        if packet.type == PacketType.DONE:
            self._take_done(packet)
        if packet.tree != self.own.tree:
            return []
        if packet.type == PacketType.LOST and packet.sequence not in self.results:
            self.lost.add(packet.sequence)
        if packet.type == PacketType.RESULT:
            self.results.setdefault(packet.sequence, (packet.leaves, Areas.of(packet)))
        return self._gaps(packet, now_us) + self.go_on(now_us)

    def _gaps(self, packet: Packet, now_us: int) -> list[Sent]:
        if packet.type not in (PacketType.RESULT, PacketType.FLUSH) or packet.flags & Flag.REPEAT:
            return []
        ask = self._packet(self.own, PacketType.ASK, now_us, 0)
        ask = replace(ask, flags=Flag.BY_NUMBER)
        missing = self.arrivals.missing_after(packet.number)
        return [self._out(self.own, replace(ask, number=number)) for number in missing]

    def _take_done(self, packet: Packet) -> None:
        bitmap = int.from_bytes(packet.max_area, "little")
        told = self.done.setdefault(packet.tree, set())
        told |= {packet.sequence - back for back in range(64) if bitmap >> back & 1}

    def _resend(self, packet: Packet, now_us: int) -> list[Sent]:
        branch = next(it for it in self.branches if it.tree == packet.tree)
        sequence = packet.sequence
        if packet.flags & Flag.BY_NUMBER:
            sequence = self.numbers[branch.tree][packet.number]
        if not 0 <= sequence < self.sent:
            return []
        return [self._contribution(branch, sequence, now_us)]


def expected(areas: Mapping[int, Sequence[Areas]], sequence: int) -> Areas:
    """Sum what all members contribute, by numpy alone and in one go."""
    import numpy as np

    parts = [each[sequence] for each in areas.values()]
    maxima = np.max([np.frombuffer(part.max_area, np.uint8) for part in parts], axis=0)
    dtype = {0: "<i4", 1: "<i4", 2: "<i8"}[parts[0].element]
    sums = np.sum([np.frombuffer(part.sum_area, dtype) for part in parts], axis=0, dtype=dtype)
    return Areas(parts[0].element, maxima.astype(np.uint8).tobytes(), sums.astype(dtype).tobytes())
