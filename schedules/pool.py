"""Candidate trees of a small network, each costed for every clique at once.

Up to a dozen sites there are at most 4096 cliques, and a spanning tree, cut back to a clique's
members, is a tree of that clique. So one pass along the links of a spanning tree, with arrays over
all cliques, costs it for all of them. When the network has few spanning trees the pool holds them
all and choosing from it is exact; otherwise it holds the shortest ones and every least-delay tree.

The streams that an aggregation tree sends over a link depend only on what hangs behind the link,
not on where beyond it the root is, so one number for each direction of each link serves all roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schedules.cost import CostModel
from schedules.network import IntArray, Network
from schedules.partitions import sizes
from schedules.trees import Hop, Tree, spanning_trees, tree_from, tree_to

COMPLETE_POOL = 400
PARTIAL_POOL = 96


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


def _spanning(tree: Tree, forest: tuple[Hop, ...]) -> tuple[Hop, ...]:
    """Return a tree's edges, with those of a forest where the tree does not reach."""
    elsewhere = [edge for edge in forest if not tree.sites & set(edge)]
    return tuple(sorted([*((min(hop), max(hop)) for hop in tree.hops), *elsewhere]))


@dataclass(frozen=True, eq=False)
class CostedTree:
    """One tree, costed for every mask of members.

    Attributes:
        hops: every direction (a, b) of every link.
        far: by hop, the mask of sites beyond it, on b's side.
        streams: by hop, (2^n,) streams of an aggregation towards any root beyond it.
        arriving: by site, (2^n,) streams that meet there from all sides, its own island included.
        wan_delay_ns: (N, N) delay along the tree from site to site.
    """

    hops: tuple[Hop, ...]
    far: dict[Hop, int]
    streams: dict[Hop, IntArray]
    arriving: dict[int, IntArray]
    wan_delay_ns: IntArray


def cost_tree(model: CostModel, edges: tuple[Hop, ...]) -> CostedTree:
    """Cost a tree (or forest) for every mask of members."""
    size = model.network.size
    masks = np.arange(1 << size)
    arriving = {site: (masks >> site & 1).astype(np.int64) for site in range(size)}
    far: dict[Hop, int] = {}
    streams: dict[Hop, IntArray] = {}
    everything = (1 << size) - 1
    for root, hops in _components(edges, size):
        behind = {site: 1 << site for site in (root, *(child for _, child in hops))}
        for parent, child in reversed(hops):
            behind[parent] |= behind[child]
            far[parent, child] = behind[child]
            far[child, parent] = everything & ~behind[child]
            streams[child, parent] = leaving(arriving[child], model.fan_in[child])
            arriving[parent] = arriving[parent] + streams[child, parent]
        for parent, child in hops:
            others = arriving[parent] - streams[child, parent]
            streams[parent, child] = leaving(others, model.fan_in[parent])
            arriving[child] = arriving[child] + streams[parent, child]
    delay = _wan_delays(model.network, edges)
    return CostedTree(tuple(sorted(streams)), far, streams, arriving, delay)


def _components(edges: tuple[Hop, ...], size: int) -> Iterator[tuple[int, tuple[Hop, ...]]]:
    left = set(range(size))
    while left:
        tree = Tree.rooted(edges, min(left))
        left -= tree.sites
        yield tree.root, tree.hops


def _wan_delays(network: Network, edges: tuple[Hop, ...]) -> IntArray:
    """Return (N, N) delays along the tree; sites it does not join stay at zero."""
    delay = np.zeros((network.size, network.size), dtype=np.int64)
    for root in range(network.size):
        for site, depth in Tree.rooted(edges, root).depths_ns(network, downwards=True).items():
            delay[root, site] = depth
    return delay


def between_islands(network: Network, wan_delay_ns: IntArray) -> IntArray:
    """Return (N, N) delays with both access ports added, zero from an island to itself."""
    access = network.access_delay_ns
    return np.where(np.eye(network.size), 0, wan_delay_ns + access[:, None] + access[None, :])


def leaving(arriving: IntArray, fan_in: int) -> IntArray:
    """Return the streams that leave a site where so many arrive."""
    taken = np.minimum(arriving, fan_in)
    return np.where(taken >= 2, arriving - taken + 1, arriving)


def summed(arriving: IntArray, fan_in: int) -> IntArray:
    """Return the streams that the accelerator of a site takes in."""
    taken = np.minimum(arriving, fan_in)
    return np.where(taken >= 2, taken, 0)


def count_in(size: int, mask: int) -> IntArray:
    """Return (2^n,) how many members of every mask lie in another mask."""
    return np.asarray(sizes(size)[np.arange(1 << size) & mask], dtype=np.int64)


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
