"""Ring orders for many islands, and what no ring can undercut.

A ring takes (crossings of its busiest direction) x 2(n-1)/n messages, and its latency is nearly
twice its tour. Both matter, so orders are compared by their time. Up to `TRIED_MEMBERS` all orders
are tried; above that a tour of nearest neighbours, or a walk around a least-delay tree, is improved
by simulated annealing on two moves: reverse a stretch (2-opt) and move a stretch (Or-opt).

The bound on a tour is that of Held and Karp (Math. Programming 1, 1971): a spanning tree of all
islands but one, plus that one's two cheapest edges, is no longer than a tour; prices on islands
that the tree meets too often, and bonuses on those at its ends, raise that bound without changing
which tour is shortest.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from schedules.constraints import Clock
from schedules.cost import NANOSECONDS
from schedules.network import FloatArray, IntArray, Network
from schedules.ring import ring_share

if TYPE_CHECKING:
    from schedules.routed import RouteTable

TRIED_MEMBERS = 7
EVALUATIONS_A_MEMBER = 24
MOST_EVALUATIONS = 3000
HELD_KARP_STEPS = 300
PATIENT_SITES = 250
CROWDING = 0.05
LATENCY_TRIFLE = 1e-3
SHORTENED_ENTRIES = 60_000_000


def ring_crossings(routes: RouteTable, order: IntArray) -> FloatArray:
    """Return (W,) how often the hops of a ring cross each WAN direction."""
    columns = routes.crossed(order, np.roll(order, -1))[1]
    return np.bincount(columns, minlength=routes.network.wan_count).astype(np.float64)


def ring_latency_ns(network: Network, order: IntArray) -> int:
    """Return the longest chain of 2(n-1) steps: twice around without two hops in a row."""
    hops = network.delay_ns[order, np.roll(order, -1)]
    return int(2 * hops.sum() - (hops + np.roll(hops, -1)).min())


@lru_cache(maxsize=8)
def _orders(count: int) -> IntArray:
    rest = np.array(list(permutations(range(1, count))), dtype=np.int64).reshape(-1, count - 1)
    return np.hstack([np.zeros((len(rest), 1), dtype=np.int64), rest])


def short_ring(
    routes: RouteTable, members: IntArray, clock: Clock, patience: float = 1.0
) -> IntArray:
    """Return an order of members whose ring takes little time; more patience, less time."""
    if len(members) <= 3:
        return _best_of_all(routes, members, clock) if len(members) == 3 else members
    if len(members) <= TRIED_MEMBERS:
        return _best_of_all(routes, members, clock)
    return _annealed(routes, members, clock, patience)


def _best_of_all(routes: RouteTable, members: IntArray, clock: Clock) -> IntArray:
    orders = members[_orders(len(members))]
    following = np.roll(orders, -1, axis=1)
    which, columns = routes.crossed(orders.ravel(), following.ravel())
    count = routes.network.wan_count
    place = which // len(members) * count + columns
    crossed = np.bincount(place, minlength=len(orders) * count).reshape(-1, count)
    units = ring_share(len(members)) * np.maximum(_busiest(routes, crossed), _ports(routes, orders))
    hops = routes.network.delay_ns[orders, following]
    latency = 2 * hops.sum(axis=1) - (hops + np.roll(hops, -1, axis=1)).min(axis=1)
    seconds = clock.seconds(units, latency.astype(np.float64), np.zeros(len(orders)))
    return np.asarray(orders[np.lexsort((crossed.sum(axis=1), seconds.round(12)))[0]])


def _busiest(routes: RouteTable, crossed: IntArray) -> FloatArray:
    slowness = routes.network.slowness[: routes.network.wan_count]
    return np.asarray((crossed * slowness).max(axis=1, initial=0.0), dtype=np.float64)


def _ports(routes: RouteTable, orders: IntArray) -> FloatArray:
    network = routes.network
    slowness = network.slowness[network.up(0) : network.down(0)]
    return np.asarray(slowness[orders].max(axis=1), dtype=np.float64)


# --- annealing ------------------------------------------------------------------------------------


def _annealed(routes: RouteTable, members: IntArray, clock: Clock, patience: float) -> IntArray:
    count = len(members)
    random = np.random.default_rng(count)
    starts = [_shortened(routes.network, members), *_walks(routes.network, members)]
    scored = sorted((sum(_seconds(routes, order, clock)), n) for n, order in enumerate(starts))
    worth, number = scored[0]
    order = starts[number]
    best, best_seconds = order, _seconds(routes, order, clock)[0]
    near = _neighbours(routes.network, members)
    steps = int(patience * min(EVALUATIONS_A_MEMBER * count, MOST_EVALUATIONS))
    heat = 0.02 * worth
    for step in range(steps):
        candidate = _moved(order, near, random)
        seconds, crowding = _seconds(routes, candidate, clock)
        other = seconds + crowding
        warmth = heat * (1 - step / steps) ** 2 + 1e-15
        if other < worth or random.random() < np.exp((worth - other) / warmth):
            order, worth = candidate, other
            if seconds < best_seconds:
                best, best_seconds = order, seconds
    return np.roll(best, -int(best.argmin()))


def _seconds(routes: RouteTable, order: IntArray, clock: Clock) -> tuple[float, float]:
    """Return the time of a ring, and a penalty for directions busier than the access ports.

    The busiest direction alone would not tell a ring with one such direction from one with many.
    """
    network = routes.network
    crossed = ring_crossings(routes, order) * network.slowness[: network.wan_count]
    port = float(_ports(routes, order[None, :])[0])
    busiest = max(float(crossed.max(initial=0.0)), port)
    excess = crossed - port
    crowding = float(excess[excess > 0].sum()) / port
    latency = ring_latency_ns(network, order) * NANOSECONDS
    latency *= 1.0 if clock.counts_latency else LATENCY_TRIFLE
    share = ring_share(len(order)) * clock.unit_s
    return share * busiest + latency, share * CROWDING * crowding


def _nearest(network: Network, members: IntArray) -> IntArray:
    left = members.tolist()
    tour = [left.pop(0)]
    while left:
        delays = network.delay_ns[tour[-1], left]
        tour.append(left.pop(int(delays.argmin())))
    return np.array(tour, dtype=np.int64)


def _shortened(network: Network, members: IntArray) -> IntArray:
    """Return a tour that no reversed or moved stretch makes shorter: the best move, repeatedly."""
    order = _nearest(network, members)
    length = (network.delay_ns + network.delay_ns.T).astype(np.float64)
    for _ in range(max(1, SHORTENED_ENTRIES // len(members) ** 2)):
        ways = [_best_reversal(length, order), *(_best_shift(length, order, n) for n in (1, 2, 3))]
        saved, better = min(ways, key=lambda way: way[0])
        if saved >= -0.5:
            break
        order = better
    return order


def _best_reversal(length: FloatArray, order: IntArray) -> tuple[float, IntArray]:
    """Return what the best 2-opt move saves (below zero) and the order after it."""
    after = np.roll(order, -1)
    hops = length[order, after]
    change = length[np.ix_(order, order)] + length[np.ix_(after, after)]
    change -= hops[:, None] + hops[None, :]
    change[np.tril_indices(len(order))] = 0
    i, j = np.unravel_index(int(change.argmin()), change.shape)
    reversed_ = np.concatenate([order[: i + 1], order[i + 1 : j + 1][::-1], order[j + 1 :]])
    return float(change[i, j]), reversed_


def _best_shift(length: FloatArray, order: IntArray, stretch: int) -> tuple[float, IntArray]:
    """Return what the best move of a stretch saves (below zero) and the order after it."""
    count = len(order)
    if count < stretch + 3:
        return 0.0, order
    last, before = np.roll(order, 1 - stretch), np.roll(order, 1)
    behind = np.roll(order, -stretch)
    gain = length[before, behind] - length[before, order] - length[last, behind]
    after = np.roll(order, -1)
    put = length[np.ix_(order, order)].T + length[np.ix_(last, after)]
    change = gain[:, None] + put - length[order, after][None, :]
    place = np.arange(count)
    for offset in range(-1, stretch):
        change[place, (place + offset) % count] = 0
    i, j = np.unravel_index(int(change.argmin()), change.shape)
    turned = np.roll(order, -int(i))
    cut = (int(j) - int(i)) % count + 1
    moved = np.concatenate([turned[stretch:cut], turned[:stretch], turned[cut:]])
    return float(change[i, j]), moved


def _walks(network: Network, members: IntArray) -> list[IntArray]:
    """Return the orders in which walks around least-delay trees meet the members."""
    found = []
    for root in members[:: max(1, len(members) // 4)].tolist():
        parent = network.next_hop[:, root]
        children: dict[int, list[int]] = {}
        for site in np.argsort(network.delay_ns[root], kind="stable").tolist():
            if site != root:
                children.setdefault(int(parent[site]), []).append(site)
        pending, met, wanted = [root], [], set(members.tolist())
        while pending:
            site = pending.pop()
            met.append(site)
            pending += reversed(children.get(site, []))
        found.append(np.array([site for site in met if site in wanted], dtype=np.int64))
    return found


def _neighbours(network: Network, members: IntArray) -> dict[int, IntArray]:
    delays = network.delay_ns[np.ix_(members, members)] + 0.0
    np.fill_diagonal(delays, np.inf)
    nearest = np.argsort(delays, axis=1, kind="stable")[:, : min(8, len(members) - 1)]
    return {int(site): members[row] for site, row in zip(members, nearest, strict=True)}


def _moved(order: IntArray, near: dict[int, IntArray], random: np.random.Generator) -> IntArray:
    """Return a neighbour of an order: a stretch reversed, or moved beside a near island."""
    count = len(order)
    order = np.roll(order, -int(random.integers(count)))
    beside = near[int(order[0])]
    other = int(np.flatnonzero(order == beside[int(random.integers(len(beside)))])[0])
    if random.random() < 0.5:
        return np.concatenate([order[:1], order[1 : other + 1][::-1], order[other + 1 :]])
    length = min(int(random.integers(1, 4)), count - 2)
    if other < length:
        length = other
    stretch, rest = order[:length], order[length:]
    place = other - length + int(random.integers(2))
    if random.random() < 0.5:
        stretch = stretch[::-1]
    return np.concatenate([rest[:place], stretch, rest[place:]])


# --- bounds ---------------------------------------------------------------------------------------


def least_tour(length: FloatArray, steps: int = HELD_KARP_STEPS) -> float:
    """Return a lower bound on the length of a closed tour of all islands.

    Args:
        length: (n, n) symmetric lengths between at least three islands.
        steps: of the ascent; every step gives a valid bound.
    """
    count = len(length)
    if count < 3:
        return float(length.sum())
    price = np.zeros(count)
    best, stride = -np.inf, float(length[length > 0].mean()) / 10 if (length > 0).any() else 0.0
    previous = np.zeros(count)
    for step in range(steps):
        bound, degree = _one_tree(length + price[:, None] + price[None, :])
        best = max(best, bound - 2 * float(price.sum()))
        excess = degree - 2
        if not excess.any():
            break
        price = price + stride * (1 - step / steps) * (0.7 * excess + 0.3 * previous)
        previous = excess
    return best


def _one_tree(length: FloatArray) -> tuple[float, FloatArray]:
    """Return the length and degrees of a least spanning tree and the first island's two edges."""
    parent, edges = _spanning_tree(length[1:, 1:])
    degree = np.bincount(parent + 1, minlength=len(length)).astype(np.float64) + 1
    degree[1] -= 1  # the tree's root has no parent
    ends = np.argsort(length[0, 1:], kind="stable")[:2] + 1
    degree[ends] += 1
    degree[0] = 2
    return float(edges.sum() + length[0, ends].sum()), degree


def _spanning_tree(length: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the parents (of all but the first) and edge lengths of a least spanning tree.

    Prim's algorithm on arrays, quicker than a sparse one where every two islands have an edge.
    """
    count = len(length)
    parent = np.zeros(count, dtype=np.int64)
    nearest = length[0].astype(np.float64)
    edges = np.zeros(count)
    waiting = np.zeros(count)
    waiting[0] = np.inf
    for _ in range(count - 1):
        site = int((nearest + waiting).argmin())
        edges[site] = nearest[site]
        waiting[site] = np.inf
        closer = length[site] < nearest
        closer &= waiting == 0
        parent[closer] = site
        nearest[closer] = length[site, closer]
    return parent[1:], edges[1:]


def least_tours(delay_ns: IntArray) -> FloatArray:
    """Return (n + 1,) lower bounds on the tour of any k islands, by k.

    Two arguments. Each island of a tour has two hops, none shorter than its shortest. And a tour of
    k grows into one of all by visiting each of the others from the nearest island that is there,
    forth and back; those visits cost no more than the longest n-k edges of a spanning tree, so what
    all need, less that, is needed by any k.
    """
    count = len(delay_ns)
    least = np.zeros(count + 1)
    if count < 2:
        return least
    there = delay_ns + np.diag(np.full(count, np.inf))
    least[1:] = np.cumsum(np.sort((there.min(axis=0) + there.min(axis=1)) / 2))
    least[1] = 0
    forth_and_back = (delay_ns + delay_ns.T).astype(np.float64)
    edges = np.sort(_spanning_tree(forth_and_back)[1])[::-1]
    steps = HELD_KARP_STEPS if count <= PATIENT_SITES else HELD_KARP_STEPS // 3
    whole = least_tour(np.minimum(delay_ns, delay_ns.T).astype(np.float64), steps)
    visits = np.concatenate([[0.0], np.cumsum(edges)])
    for members in range(2, count + 1):
        least[members] = max(least[members], whole - visits[count - members])
    return np.maximum.accumulate(least)
