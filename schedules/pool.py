"""Candidate trees of a small network, each costed for every clique at once.

Up to a dozen sites there are at most 4096 cliques, and a spanning tree, cut back to a clique's
members, is a tree of that clique. So one pass along the links of a spanning tree, with arrays over
all cliques, costs it for all of them. When the network has few spanning trees the pool holds them
all and choosing from it is exact; otherwise it holds the shortest ones and every least-delay tree.

The streams that an aggregation tree sends over a link depend only on what hangs behind the link,
not on where beyond it the root is, so one number for each direction of each link serves all roots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedules.cost import CostModel
from schedules.network import IntArray, Network
from schedules.partitions import ENUMERATED_SITES, sizes
from schedules.trees import Hop, Tree, spanning_trees, tree_from, tree_to

COMPLETE_POOL = 400
PARTIAL_POOL = 96
MOST_STREAMS = ENUMERATED_SITES

CountArray = NDArray[np.int16]


@dataclass(frozen=True)
class TreePool:
    """Spanning trees to choose from.

    Attributes:
        trees: edge sets.
        complete: whether these are all there are.
        least_delay_from: by root, the tree of least-delay paths from it.
        least_delay_to: by root, the tree of least-delay paths to it.
    """

    trees: tuple[tuple[Hop, ...], ...]
    complete: bool
    least_delay_from: tuple[int, ...]
    least_delay_to: tuple[int, ...]
    _costed: dict[int, CostedTree] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, network: Network) -> TreePool:
        """Gather the candidate trees of a network."""
        trees, complete = spanning_trees(network, COMPLETE_POOL)
        number = {tree: index for index, tree in enumerate(trees if complete else ())}
        if not complete:
            number = {tree: index for index, tree in enumerate(trees[:PARTIAL_POOL])}
        reachable = [np.flatnonzero(row >= 0).tolist() for row in network.next_hop]
        outward: list[int] = []
        inward: list[int] = []
        for root, sites in enumerate(reachable):
            for grow, found in ((tree_from, outward), (tree_to, inward)):
                edges = _spanning(grow(network, root, sites), trees[0])
                found.append(number.setdefault(edges, len(number)))
        return cls(tuple(number), complete, tuple(outward), tuple(inward))

    def costed(self, model: CostModel, number: int) -> CostedTree:
        """Return a tree's costs, computed once."""
        if number not in self._costed:
            self._costed[number] = cost_tree(model, self.trees[number])
        return self._costed[number]


def _spanning(tree: Tree, forest: tuple[Hop, ...]) -> tuple[Hop, ...]:
    """Return a tree's edges, with those of a forest where the tree does not reach."""
    elsewhere = [edge for edge in forest if not tree.sites & set(edge)]
    return tuple(sorted([*((min(hop), max(hop)) for hop in tree.hops), *elsewhere]))


@dataclass(frozen=True, eq=False)
class CostedTree:
    """One tree, costed for every mask of members.

    Attributes:
        hops: (H, 2) every direction (a, b) of every link.
        back: (H,) the number of the opposite hop.
        columns: (H,) the column of each hop.
        towards: (N, H) whether a hop leads towards a site.
        beyond: (H, 2^n) members beyond the hop, on b's side.
        streams: (H, 2^n) streams of an aggregation towards any root beyond the hop.
        entering: (H, 2^n) streams that meet at a before they leave over the hop.
        arriving: (N, 2^n) streams that meet at a site from all sides, its own island included.
        wan_delay_ns: (N, N) delay along the tree from site to site, zero where it does not lead.
    """

    hops: IntArray
    back: IntArray
    columns: IntArray
    towards: NDArray[np.bool_]
    beyond: CountArray
    streams: CountArray
    entering: CountArray
    arriving: CountArray
    wan_delay_ns: IntArray


def cost_tree(model: CostModel, edges: tuple[Hop, ...]) -> CostedTree:
    """Cost a tree (or forest) for every mask of members."""
    network, size = model.network, model.network.size
    rooted = [tree.hops for tree in _components(edges, size)]
    downward = [hop for hops in rooted for hop in hops]
    hops = np.array([*downward, *((b, a) for a, b in downward)], dtype=np.int64).reshape(-1, 2)
    half = len(downward)
    far = _far_sides(downward, size)
    arriving, streams = _streams(model, downward)
    back = np.concatenate([np.arange(half, 2 * half), np.arange(half)])
    return CostedTree(
        hops=hops,
        back=back,
        columns=network.wan_column[hops[:, 0], hops[:, 1]],
        towards=(far[None, :] >> np.arange(size)[:, None] & 1).astype(np.bool_),
        beyond=sizes(size)[np.arange(1 << size)[None, :] & far[:, None]],
        streams=streams,
        entering=arriving[hops[:, 0]] - streams[back],
        arriving=arriving,
        wan_delay_ns=_wan_delays(network, edges),
    )


def _components(edges: tuple[Hop, ...], size: int) -> Iterator[Tree]:
    left = set(range(size))
    while left:
        tree = Tree.rooted(edges, min(left))
        left -= tree.sites
        yield tree


def _far_sides(downward: Sequence[Hop], size: int) -> IntArray:
    """Return (H,) the mask of sites beyond every hop, downward hops first."""
    below = [1 << site for site in range(size)]
    for parent, child in reversed(downward):
        below[parent] |= below[child]
    everything = (1 << size) - 1
    far = [below[child] for _, child in downward]
    return np.array([*far, *(everything & ~mask for mask in far)], dtype=np.int64)


def _streams(model: CostModel, downward: Sequence[Hop]) -> tuple[CountArray, CountArray]:
    """Count streams: first from the leaves to the root, then from the root to the leaves."""
    size, half = model.network.size, len(downward)
    own = np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1
    arriving = own.astype(np.int16)
    streams = np.zeros((2 * half, 1 << size), dtype=np.int16)
    for hop in reversed(range(half)):
        parent, child = downward[hop]
        streams[half + hop] = leaving(arriving[child], model.fan_in[child])
        arriving[parent] += streams[half + hop]
    for hop, (parent, child) in enumerate(downward):
        others = arriving[parent] - streams[half + hop]
        streams[hop] = leaving(others, model.fan_in[parent])
        arriving[child] += streams[hop]
    return arriving, streams


def _wan_delays(network: Network, edges: tuple[Hop, ...]) -> IntArray:
    delay = np.zeros((network.size, network.size), dtype=np.int64)
    for tree in _components(edges, network.size):
        placed = [tree.root]
        for parent, child in tree.hops:
            out, back = network.wan_column[parent, child], network.wan_column[child, parent]
            delay[placed, child] = delay[placed, parent] + network.wan_delay_ns[out]
            delay[child, placed] = delay[parent, placed] + network.wan_delay_ns[back]
            placed.append(child)
    return delay


def between_islands(network: Network, wan_delay_ns: IntArray) -> IntArray:
    """Return (N, N) delays with both access ports added, zero from an island to itself."""
    access = network.access_delay_ns
    return np.where(np.eye(network.size), 0, wan_delay_ns + access[:, None] + access[None, :])


def leaving(arriving: CountArray, fan_in: int) -> CountArray:
    """Return the streams that leave a site where so many arrive."""
    if fan_in >= MOST_STREAMS:
        return np.minimum(arriving, 1)
    taken = np.minimum(arriving, fan_in)
    return np.where(taken >= 2, arriving - taken + 1, arriving)


def summed(arriving: CountArray, fan_in: int) -> CountArray:
    """Return the streams that the accelerator of a site takes in."""
    taken = np.minimum(arriving, min(fan_in, MOST_STREAMS))
    return np.where(taken >= 2, taken, np.zeros_like(taken))


def longest_within(delay_ns: IntArray) -> IntArray:
    """Return (2^n,) the largest delay between two members of every mask."""
    size = len(delay_ns)
    longest = np.zeros(1 << size, dtype=np.int64)
    outward, inward = farthest(delay_ns), farthest(delay_ns.T)
    for site in range(size):
        low = slice(0, 1 << site)
        high = slice(1 << site, 2 << site)
        both = np.maximum(outward[site, low], inward[site, low])
        longest[high] = np.maximum(longest[low], both)
    return longest


def farthest(delay_ns: IntArray) -> IntArray:
    """Return (N, 2^n) the largest delay from a site to a member of every mask."""
    size = len(delay_ns)
    largest = np.zeros((size, 1 << size), dtype=np.int64)
    for site in range(size):
        low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
        largest[:, high] = np.maximum(largest[:, low], delay_ns[:, site, None])
    return largest
