"""The best ring orders of every round of a small network, all of them looked at.

Rings of one round share links, so each clique's best order on its own may be wrong for the round. A
clique of n islands has (n-1)! orders; choosing a partition of N islands and an order for each
clique is choosing a permutation of them, a cycle for each clique. So all rounds with all their
orders are N! cases, 362,880 for nine islands, and every one is costed: partitions with cliques of
the same sizes at once, with arrays over all their combinations of orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedules.constraints import Clock
from schedules.cost import NANOSECONDS, Clique
from schedules.network import FloatArray, IntArray, Network
from schedules.partitions import MaskArray, members, sizes
from schedules.ring import orders_of, ring_latency_ns, ring_share

CASES_AT_ONCE = 1 << 16
DIGITS = 12
ALONE_MEMBERS = 6


@dataclass(frozen=True, eq=False)
class _Orders:
    """All orders of all cliques of one size: M cliques, O orders, W WAN directions.

    Attributes:
        number: (2^n,) the row of a clique's mask.
        places: (O, k) orders as places among the sorted members.
        units: (M, O, W) time on every WAN direction.
        latency_ns: (M, O) longest chain of steps.
        traversals: (M, O) messages times WAN links.
    """

    number: IntArray
    places: NDArray[np.int8]
    units: FloatArray
    latency_ns: IntArray
    traversals: FloatArray

    @classmethod
    def of(cls, network: Network, count: int) -> _Orders:
        masks = np.flatnonzero(sizes(network.size) == count)
        number = np.full(1 << network.size, -1, dtype=np.int64)
        number[masks] = np.arange(len(masks))
        sites = np.array([members(int(mask)) for mask in masks])
        places = orders_of(count)
        here = sites[:, places]
        there = np.roll(here, -1, axis=2)
        share = ring_share(count)
        slowness = network.slowness[: network.wan_count] * share
        crossed = network.crossings(range(network.size))[:, :, : network.wan_count]
        crossings = np.zeros((*here.shape[:2], network.wan_count), dtype=np.uint8)
        for hop in range(count):
            crossings += crossed[here[:, :, hop], there[:, :, hop]]
        hops = network.wan_hops[here, there].sum(axis=2)
        latency = ring_latency_ns(network.delay_ns[here, there].reshape(-1, count))
        return cls(number, places, crossings * slowness, latency.reshape(hops.shape), hops * share)


@dataclass(frozen=True, eq=False)
class RingRounds:
    """The best rings of given rounds.

    Attributes:
        masks: (P, K) clique masks of every round.
        transfer_units: (P,) of the best choice of orders.
        latency_ns: (P,) of the same choice.
        traversals: (P,) of the same choice.
        pick: (P,) its number among all combinations of orders.
    """

    masks: MaskArray
    transfer_units: FloatArray
    latency_ns: IntArray
    traversals: FloatArray
    pick: IntArray
    _tables: dict[int, _Orders] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network, clock: Clock, masks: MaskArray) -> RingRounds:
        """Find the fastest orders of every round, ties going to the fewest links crossed."""
        count = len(masks)
        found = cls(
            masks,
            np.zeros(count),
            np.zeros(count, dtype=np.int64),
            np.zeros(count),
            np.zeros(count, dtype=np.int64),
        )
        counts = sizes(network.size)[masks]
        shapes, kind = np.unique(counts, axis=0, return_inverse=True)
        for number, shape in enumerate(shapes.tolist()):
            found._fill(network, clock, np.flatnonzero(kind.ravel() == number), shape)
        return found

    def _fill(self, network: Network, clock: Clock, rows: IntArray, shape: Sequence[int]) -> None:
        tables = [self._table(network, count) for count in shape if count]
        cases = int(np.prod([len(table.places) for table in tables]))
        at_once = max(1, CASES_AT_ONCE // cases)
        ports = _port_units(network)
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            units, latency, crossed = _combined(tables, self.masks[part])
            units = np.maximum(units, ports[self.masks[part]].max(axis=1)[:, None])
            delay = latency * NANOSECONDS if clock.counts_latency else 0.0
            seconds = (units * clock.unit_s + delay).round(DIGITS)
            fastest = seconds == seconds.min(axis=1)[:, None]
            pick = np.where(fastest, crossed, np.inf).argmin(axis=1)
            each = np.arange(len(part))
            self.transfer_units[part] = units[each, pick]
            self.latency_ns[part] = latency[each, pick]
            self.traversals[part] = crossed[each, pick]
            self.pick[part] = pick

    def _table(self, network: Network, count: int) -> _Orders:
        if count not in self._tables:
            self._tables[count] = _Orders.of(network, count)
        return self._tables[count]

    def orders(self, row: int) -> tuple[Clique, ...]:
        """Return the best ring order of every clique of a round, by lowest member."""
        masks = [int(mask) for mask in self.masks[row] if mask]
        tables = [self._tables[bin(mask).count("1")] for mask in masks]
        picks = np.unravel_index(int(self.pick[row]), [len(table.places) for table in tables])
        return tuple(
            sorted(
                tuple(members(mask)[place] for place in table.places[pick].tolist())
                for mask, table, pick in zip(masks, tables, picks, strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class AloneRings:
    """What rings of a few islands take at least, whatever their order and whatever else goes on.

    Cliques of more than `ALONE_MEMBERS` have zeros, which bound them too.

    Attributes:
        seconds: (2^n,) of the best order with the network to itself.
        units: (2^n, W) on every WAN direction, of the order best for that direction; they add up
            over the cliques of a round.
        latency_ns: (2^n,) of the order of least latency.
    """

    seconds: FloatArray
    units: FloatArray
    latency_ns: IntArray

    @classmethod
    def of(cls, network: Network, clock: Clock) -> AloneRings:
        """Cost all orders of all small cliques."""
        count = 1 << network.size
        nothing = np.zeros(count)
        found = cls(nothing.copy(), np.zeros((count, network.wan_count)), nothing.astype(np.int64))
        ports = _port_units(network)
        for members_of in range(2, min(ALONE_MEMBERS, network.size) + 1):
            table = _Orders.of(network, members_of)
            masks = np.flatnonzero(table.number >= 0)
            units = np.maximum(table.units.max(axis=2, initial=0.0), ports[masks][:, None])
            delay = table.latency_ns * NANOSECONDS if clock.counts_latency else 0.0
            found.seconds[masks] = (units * clock.unit_s + delay).min(axis=1)
            found.units[masks] = table.units.min(axis=1)
            found.latency_ns[masks] = table.latency_ns.min(axis=1)
        return found


def _port_units(network: Network) -> FloatArray:
    """Return (2^n,) the time of the slowest access port of a ring of every mask."""
    counts = np.arange(network.size + 1)
    share = np.where(counts >= 2, 2 * (counts - 1) / np.maximum(counts, 1), 0.0)
    ports = network.slowness[network.up(0) : network.accelerator(0)].reshape(2, -1).max(axis=0)
    slowest = np.zeros(1 << network.size)
    for site, slowness in enumerate(ports.tolist()):
        low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
        slowest[high] = np.maximum(slowest[low], slowness)
    return np.asarray(slowest * share[sizes(network.size)], dtype=np.float64)


def _combined(
    tables: Sequence[_Orders], masks: MaskArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return (rows, cases) busiest WAN direction, latency and traversals of every combination."""
    chosen = [
        (table.units[numbers], table.latency_ns[numbers], table.traversals[numbers])
        for place, table in enumerate(tables)
        for numbers in (table.number[masks[:, place]],)
    ]
    units, latency, crossed = chosen[0]
    for more, slower, links in chosen[1:]:
        rows = len(masks)
        units = (units[:, :, None] + more[:, None]).reshape(rows, -1, more.shape[2])
        latency = np.maximum(latency[:, :, None], slower[:, None]).reshape(rows, -1)
        crossed = (crossed[:, :, None] + links[:, None]).reshape(rows, -1)
    return units.max(axis=2), latency, crossed
