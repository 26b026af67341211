"""What a clique costs at the very least, whatever its ring order or trees are.

Two kinds of demand hold for every choice. *Access ports*: what an island must send and hear.
*Cuts*: whatever sites S a clique straddles, so many messages must leave S, and all links that leave
S carry them together (the cut argument of ForestColl, arXiv:2402.06787, for one clique at a time):

    collective   out of an island   into an island   out of S
    ring         2(n-1)/n           2(n-1)/n         2(n-1)/n
    multicast    1                  n-1              members inside
    aggregation  n-1                1                members outside
    innetwork    1                  1                1

The demands of cliques that work at the same time add up, so floors of cliques are summed row by row
and the largest row is the floor of the round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schedules.capabilities import AGGREGATION, EXCHANGE, INNETWORK, MULTICAST, RING
from schedules.cost import CostModel
from schedules.network import FloatArray, IntArray, Network
from schedules.partitions import sizes
from schedules.pool import TreePool, farthest, longest_within
from schedules.steiner import steiner_table
from schedules.tables import styles
from schedules.unsummed import cut_demand, down_demand

CUTS_KEPT = 64
UNSUMMED_SITES = 9


@dataclass(frozen=True, eq=False)
class Floor:
    """Least costs of every clique's mask.

    Attributes:
        collective: of which collective.
        units: (2^n, F) time demanded of each access port and cut.
        latency_ns: (2^n,) least latency.
        traversals: (2^n,) fewest messages times WAN links.
        groups: (2^n,) trees to install.
    """

    collective: str
    units: FloatArray
    latency_ns: IntArray
    traversals: FloatArray
    groups: IntArray


def floor_of(
    model: CostModel,
    collective: str,
    pool: TreePool | None = None,
) -> Floor:
    """Return the floors of a collective for a network of at most a dozen sites.

    Args:
        model: the network and its capabilities.
        collective: of which collective.
        pool: all trees of the network, for better floors where accelerators are few.
    """
    size = model.network.size
    counts = sizes(size).astype(np.int64)
    groups = {MULTICAST: counts, AGGREGATION: counts, INNETWORK: np.full(1 << size, 2)}
    installed = np.where(counts >= 2, groups.get(collective, np.zeros_like(counts)), 0)
    if collective == EXCHANGE:
        exact = styles(model, EXCHANGE)[0]
        units = exact.loads * model.slowness
        return Floor(EXCHANGE, units, exact.latency_ns, exact.traversals, installed)
    if pool is not None and not (pool.complete and size <= UNSUMMED_SITES):
        pool = None
    if model.capabilities.sums_anywhere or collective not in (AGGREGATION, INNETWORK):
        pool = None
    units = np.hstack([_access(model, collective, pool), _cuts(model, collective, pool)])
    latency = _latency(model, collective)
    return Floor(collective, units, latency, _traversals(model, collective), installed)


def _demand(collective: str, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what an island sends and hears in cliques of these sizes."""
    several = (counts >= 2).astype(np.float64)
    if collective == RING:
        share = np.where(counts >= 2, 2 * (counts - 1) / np.maximum(counts, 1), 0.0)
        return share, share
    many: FloatArray = np.maximum(counts - 1, 0).astype(np.float64)
    return (
        many if collective == AGGREGATION else several,
        many if collective == MULTICAST else several,
    )


def _access(model: CostModel, collective: str, pool: TreePool | None) -> FloatArray:
    network, size = model.network, model.network.size
    own = np.arange(1 << size)[:, None] >> np.arange(size)[None, :] & 1
    out, into = _demand(collective, sizes(size).astype(np.int64))
    slowness = model.slowness[network.up(0) : network.accelerator(0)]
    arriving = own * into[:, None]
    if pool is not None and collective == AGGREGATION:
        arriving = down_demand(model, pool)
    demand = np.hstack([own * out[:, None], arriving])
    return np.asarray(demand * slowness, dtype=np.float64)


def _cuts(model: CostModel, collective: str, pool: TreePool | None) -> FloatArray:
    network = model.network if collective == RING else model.tree_network
    counts = sizes(network.size).astype(np.int64)
    masks = np.arange(1 << network.size)
    rows: list[tuple[float, int, float, FloatArray]] = []
    for cut, rate in cuts(network):
        inside = counts[masks & cut]
        demand = _leaving_demand(collective, inside, counts - inside)
        row = demand * (network.reference_mbps / rate) if rate else _unless_idle(demand)
        rows.append((-row[-1], cut, rate, row))
    rows = sorted(rows, key=lambda row: row[:2])[:CUTS_KEPT]
    if pool is None or not rows:
        kept = np.array([row for _, _, _, row in rows], dtype=np.float64)
        return np.ascontiguousarray(kept.reshape(-1, len(masks)).T)
    demand = cut_demand(model, collective, pool, [cut for _, cut, _, _ in rows])
    with np.errstate(divide="ignore", invalid="ignore"):
        times = demand * (network.reference_mbps / np.array([rate for _, _, rate, _ in rows]))
    return np.where(demand > 0, times, 0.0)


def _unless_idle(demand: FloatArray) -> FloatArray:
    return np.where(demand > 0, np.inf, 0.0)


def _leaving_demand(collective: str, inside: IntArray, outside: IntArray) -> FloatArray:
    straddles = (inside > 0) & (outside > 0)
    counts = inside + outside
    demand = {
        RING: 2 * (counts - 1) / np.maximum(counts, 1),
        MULTICAST: inside,
        AGGREGATION: outside,
        INNETWORK: np.ones(len(inside)),
    }[collective]
    return np.where(straddles, demand, 0.0).astype(np.float64)


def cuts(network: Network) -> Iterator[tuple[int, float]]:
    """Yield masks of sites that hang together, as do the rest, with the rate in Mbit/s out of them.

    Only usable links count. Cuts into more than two parts follow from these.
    """
    everything = (1 << network.size) - 1
    beside = [0] * network.size
    for a, b in network.wan[network.usable].tolist():
        beside[a] |= 1 << b
        beside[b] |= 1 << a
    source = 1 << network.wan[:, 0]
    target = 1 << network.wan[:, 1]
    rates = network.rate_mbps[: network.wan_count]
    for cut in range(1, everything):
        if _hangs_together(cut, beside) and _hangs_together(everything ^ cut, beside):
            crossing = (source & cut > 0) & (target & cut == 0) & network.usable
            yield cut, float(rates[crossing].sum())


def _hangs_together(mask: int, beside: list[int]) -> bool:
    reached = front = mask & -mask
    while front:
        site = (front & -front).bit_length() - 1
        front &= front - 1
        fresh = beside[site] & mask & ~reached
        reached |= fresh
        front |= fresh
    return reached == mask


def _latency(model: CostModel, collective: str) -> IntArray:
    if collective == RING:
        return _ring_latency(model.network)
    if collective != INNETWORK:
        return longest_within(model.tree_network.delay_ns)
    network = model.tree_network
    access = network.access_delay_ns
    wan = network.delay_ns - access[:, None] - access[None, :]
    np.fill_diagonal(wan, 0)
    both = farthest(wan + access) + farthest(wan.T + access)
    roots = [site for site, fan_in in enumerate(model.fan_in) if fan_in >= 2]
    if not roots:
        return np.zeros(1 << network.size, dtype=np.int64)
    return np.where(sizes(network.size) >= 2, both[roots].min(axis=0), 0)


def _ring_latency(network: Network) -> IntArray:
    """Bound 2(n-1) hops in a row by the shortest tour.

    Twice around leaves out the cheapest two hops in a row, which are at most 2/n of the tour.
    """
    counts = sizes(network.size).astype(np.int64)
    tour = shortest_tours(network.delay_ns.astype(np.float64))
    bound = tour * (2 - 2 / np.maximum(counts, 1))
    return np.where(counts >= 2, np.floor(bound), 0).astype(np.int64)


def shortest_tours(length: FloatArray) -> FloatArray:
    """Return (2^n,) the length of the shortest closed tour of every mask.

    The dynamic program of Held and Karp (J. SIAM 10, 1962), tours anchored at their lowest site.
    """
    size = len(length)
    path = np.full((1 << size, size), np.inf)
    path[1 << np.arange(size), np.arange(size)] = 0
    tour = np.zeros(1 << size)
    for mask in range(1, 1 << size):
        anchor = (mask & -mask).bit_length() - 1
        tour[mask] = (path[mask] + length[:, anchor]).min()
        onward = (path[mask][:, None] + length).min(axis=0)
        for site in range(anchor + 1, size):
            if not mask >> site & 1:
                path[mask | 1 << site, site] = onward[site]
    return np.where(sizes(size) >= 2, tour, 0.0)


def _traversals(model: CostModel, collective: str) -> FloatArray:
    network = model.network
    counts = sizes(network.size).astype(np.int64)
    several = counts >= 2
    if collective == RING:
        hops = shortest_tours(network.wan_hops.astype(np.float64))
        return np.where(several, hops * 2 * (counts - 1) / np.maximum(counts, 1), 0.0)
    weights = np.where(np.isfinite(model.hop_weights), 1.0, np.inf)
    table = steiner_table(weights, range(network.size))
    masks = np.arange(1 << network.size)
    first = (masks[:, None] >> np.arange(network.size)[None, :] & 1).argmax(axis=1)
    links = np.where(several, table.cost[masks, first], 0.0)
    return np.asarray(links * (2 if collective == INNETWORK else counts), dtype=np.float64)
