"""The `mean` objective without enumeration: grids of islands.

Islands laid out in a grid of d1 x d2 x ... cells hold the exact mean of all after averaging along
each axis in turn, as `schedules.grids` explains; one axis is the full clique. Which island lies in
which cell is free, so a search swaps cells until the cycle gets no shorter.

No cycle can be too short. A round of averaging matrix W leaves W's rank of independent parameters,
one for each clique, and the mean alone is left in the end; ranks of a product obey Sylvester's
inequality, so over the cycle (islands - cliques) adds up to N-1 at least. That holds for any
sequence of rounds, unequal weights included, and so does this: the two islands furthest apart must
hear of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schedules.all_pairs import all_pairs_needs
from schedules.averaging import averaging_bound
from schedules.cost import NANOSECONDS
from schedules.large_rounds import LargeRounds, Offer
from schedules.network import IntArray
from schedules.relaxations import ROUTED_SITES
from schedules.search import Partition
from schedules.solution import MEAN_OBJECTIVE, Solution, gap_pct

MOST_AXES = 4
SWAPS = 1500
SWAPPED_SITES = 300
GOOD_GAP_PCT = 0.01
TRIED_GRIDS = 6


@dataclass(frozen=True, eq=False)
class _Cycle:
    """Rounds of a grid and the time they take together."""

    offers: tuple[Offer, ...]
    seconds: float


def least_large_mean(rounds: LargeRounds) -> Solution | None:
    """Return a short cycle to the exact mean; None when the limits allow no grid."""
    bound = mean_bound(rounds)
    cycles: list[tuple[float, tuple[int, ...], _Cycle]] = []
    for shape in shapes(rounds.size, rounds.largest):
        closed = (
            bool(cycles) and _gap(min(cycles, key=lambda found: found[0])[0], bound) <= GOOD_GAP_PCT
        )
        if cycles and (closed or rounds.half_over):
            break
        cycle = _cycle(rounds, rounds.order.reshape(shape))
        if cycle is not None:
            cycles.append((cycle.seconds, shape, cycle))
    if not cycles:
        return None
    cycles.sort(key=lambda found: found[:2])
    best = cycles[0][2]
    for _, shape, cycle in cycles[:TRIED_GRIDS]:
        done = rounds.watch.over() or _gap(best.seconds, bound) <= GOOD_GAP_PCT
        if len(shape) > 1 and rounds.size <= SWAPPED_SITES and not done:
            better = _swapped(rounds, rounds.order.reshape(shape), cycle)
            best = min(best, better, key=lambda found: found.seconds)
        rounds.watch.tell("swapping", 0, 0, _gap(best.seconds, bound))
    chosen = tuple(rounds.chosen(offer) for offer in best.offers)
    shares = (1 / len(chosen),) * len(chosen)
    return Solution(MEAN_OBJECTIVE, chosen, shares, best.seconds, min(bound, best.seconds))


def _gap(seconds: float, bound: float) -> float:
    return gap_pct(MEAN_OBJECTIVE, seconds, bound)


def shapes(count: int, most: int) -> list[tuple[int, ...]]:
    """Return all ways to write a number as a product of factors up to some size, in all orders."""
    found = set()

    def extend(left: int, chosen: tuple[int, ...]) -> None:
        if left == 1 and chosen:
            found.add(chosen)
        elif len(chosen) < MOST_AXES:
            for factor in range(2, min(left, most) + 1):
                if left % factor == 0:
                    extend(left // factor, (*chosen, factor))

    extend(count, ())
    return sorted(found, key=lambda shape: (len(shape), shape))


def lines(cells: IntArray) -> Iterator[Partition]:
    """Yield the partition into lines along each axis of a grid."""
    for axis in range(cells.ndim):
        along = np.moveaxis(cells, axis, -1).reshape(-1, cells.shape[axis])
        yield tuple(sorted(tuple(sorted(line)) for line in along.tolist()))


def _cycle(rounds: LargeRounds, cells: IntArray) -> _Cycle | None:
    offers = []
    for cliques in lines(cells):
        offer = rounds.offer(cliques)
        if offer is None:
            return None
        offers.append(offer)
    return _Cycle(tuple(offers), sum(offer.seconds for offer in offers))


def _swapped(rounds: LargeRounds, cells: IntArray, cycle: _Cycle) -> _Cycle:
    """Swap islands between cells as long as the cycle gets no longer."""
    random = np.random.default_rng(cells.size)
    flat, best = cells.ravel().copy(), cycle
    left = rounds.watch.left_s
    until = rounds.watch.elapsed_s + (8.0 if left is None else min(8.0, left / 4))
    for _ in range(SWAPS):
        if rounds.watch.over() or rounds.watch.elapsed_s > until:
            break
        a, b = random.choice(len(flat), 2, replace=False)
        flat[[a, b]] = flat[[b, a]]
        other = _cycle(rounds, flat.reshape(cells.shape))
        if other is not None and other.seconds <= best.seconds:
            best = other
        else:
            flat[[a, b]] = flat[[b, a]]
    return best


def mean_bound(rounds: LargeRounds) -> float:
    """Return a time no cycle can undercut.

    Ranks bound every cycle, and so does what must cross a cut. Besides, a cycle either has a round
    of one clique of all, or several rounds whose largest cliques multiply to N at least: what an
    island hears of grows by no more.
    """
    rate = averaging_bound(rounds)
    by_rank = 1 / rate if rate > 0 else np.inf
    several = _several_rounds_s(rounds)
    if rounds.clock.counts_latency:
        network = rounds.model.network
        longest = float(network.delay_ns.max()) * NANOSECONDS
        several = max(several, _several_rounds_s(rounds, latency=False) + longest)
    return max(by_rank, min(several, _whole_s(rounds)))


def _whole_s(rounds: LargeRounds) -> float:
    """Return what a round of one clique of all takes at least."""
    least = {name: r.least_seconds(rounds.size) for name, r in rounds.relaxations.items()}
    few = rounds.size <= ROUTED_SITES or len(rounds.collectives) == 1
    needs = all_pairs_needs(rounds.model, rounds.clock, rounds.collectives) if few else ()
    for need in needs:
        least[need.collective] = max(least[need.collective], 1 / need.rate)
    return min(least.values())


def _several_rounds_s(rounds: LargeRounds, latency: bool = True) -> float:
    """Return what two or more rounds take at least that tell every island of all others.

    A dynamic program over how many islands are yet to be heard of.
    """
    size = rounds.size
    relaxations = rounds.relaxations.values()
    sizes = range(2, size)
    one = [min((r.least_seconds(k, latency) for r in relaxations), default=np.inf) for k in sizes]
    least = [0.0, 0.0]
    for left in range(2, size + 1):
        ways = (one[k - 2] + least[-(-left // k)] for k in sizes[: left - 1])
        least.append(min(ways, default=np.inf))
    return least[size]
