"""The best ring orders of several cliques that share links.

Each clique's best order on its own may cross what another crosses too. A clique of n has (n-1)!
orders, but few of them matter: an order is left out when another loads no direction more and is no
slower. What remains is combined clique by clique, which makes the choice exact for a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedules.constraints import Clock
from schedules.cost import NANOSECONDS, Clique
from schedules.network import FloatArray, IntArray, Network
from schedules.ring import every_ring, ring_share

WHOLE_PRODUCT = 1 << 15


@dataclass(frozen=True, eq=False)
class RingChoices:
    """The orders of one clique that no other beats.

    Attributes:
        orders: (U, n) members in ring order.
        loads: (U, D) messages over every direction.
        latency_ns: (U,) longest chain of steps.
    """

    orders: IntArray
    loads: FloatArray
    latency_ns: IntArray


@dataclass(eq=False)
class JointRings:
    """Finds the best orders of the rounds of a network, remembering each clique's choices."""

    network: Network
    clock: Clock
    _choices: dict[Clique, RingChoices] = field(default_factory=dict)

    def choices(self, clique: Clique) -> RingChoices:
        """Return the orders of a sorted clique that no other order beats."""
        if clique not in self._choices:
            orders, crossings, latency = every_ring(self.network, clique)
            kept = _unbeaten(crossings, latency, self.clock.counts_latency)
            loads = crossings[kept].astype(np.float64) * ring_share(len(clique))
            self._choices[clique] = RingChoices(orders[kept], loads, latency[kept])
        return self._choices[clique]

    def best(self, cliques: Sequence[Clique]) -> tuple[float, tuple[Clique, ...]]:
        """Return the least seconds of a round of rings, and its orders."""
        choices = sorted((self.choices(clique) for clique in cliques), key=lambda c: len(c.orders))
        loads, latency = choices[0].loads, choices[0].latency_ns
        picks = np.arange(len(latency))[:, None]
        for choice in choices[1:]:
            loads = (loads[:, None, :] + choice.loads[None, :, :]).reshape(-1, loads.shape[1])
            latency = np.maximum(latency[:, None], choice.latency_ns[None, :]).ravel()
            last = np.tile(np.arange(len(choice.orders)), len(picks))[:, None]
            picks = np.hstack([np.repeat(picks, len(choice.orders), axis=0), last])
            kept = _unbeaten_by_time(self._seconds(loads, latency), len(picks))
            loads, latency, picks = loads[kept], latency[kept], picks[kept]
        seconds = self._seconds(loads, latency)
        links = loads[:, : self.network.wan_count].sum(axis=1)
        best = int(np.lexsort((links, seconds.round(12)))[0])
        orders = [tuple(c.orders[n].tolist()) for c, n in zip(choices, picks[best], strict=True)]
        return float(seconds[best]), tuple(sorted(orders, key=min))

    def _seconds(self, loads: FloatArray, latency_ns: IntArray) -> FloatArray:
        units = np.max(loads * self.network.slowness, axis=1)
        delay = latency_ns * NANOSECONDS if self.clock.counts_latency else 0.0
        return np.asarray(units * self.clock.unit_s + delay, dtype=np.float64)


def _unbeaten_by_time(seconds: FloatArray, count: int) -> IntArray:
    """Return all combinations, or only the fastest where there are too many to go on with."""
    if count <= WHOLE_PRODUCT:
        return np.arange(count)
    return np.argsort(seconds, kind="stable")[:WHOLE_PRODUCT]


def _unbeaten(crossings: NDArray[np.uint8], latency: IntArray, counts_latency: bool) -> IntArray:
    """Return the numbers of orders that no other beats or equals on every count."""
    used = crossings.any(axis=0)
    counts = crossings[:, used]
    key = latency[:, None] if counts_latency else np.zeros((len(latency), 1), dtype=np.int64)
    rows, first = np.unique(np.hstack([counts, key]), axis=0, return_index=True)
    order = np.lexsort((first, rows.sum(axis=1)))
    rows, first = rows[order], first[order]
    kept: list[int] = []
    alive = np.ones(len(rows), dtype=np.bool_)
    for number in range(len(rows)):
        if alive[number]:
            kept.append(int(first[number]))
            beaten = (rows >= rows[number]).all(axis=1)
            beaten[number] = False
            alive &= ~beaten
    return np.array(sorted(kept), dtype=np.int64)
