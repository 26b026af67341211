"""Trees: how a message spreads to many islands, and how many messages become one sum.

A tree is a root and its hops (parent, child), pointing away from the root. A multicast tree carries
a copy over each hop downwards; an aggregation tree carries partial sums upwards. In both, a site
forwards a group's traffic out of one set of ports that does not depend on where it came from, which
is what one OpenFlow group does, so a tree is all there is to choose.

Where an accelerator is missing, or its fan-in is too small, streams pass a site unsummed and load
the next hop several times: `upward_streams` counts them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx

from schedules.network import Network

Hop = tuple[int, int]


@dataclass(frozen=True)
class Tree:
    """A tree on site numbers; hops are (parent, child), parents before their children."""

    root: int
    hops: tuple[Hop, ...]

    @classmethod
    def rooted(cls, edges: Iterable[Hop], root: int) -> Tree:
        """Point the edges of a tree away from the root, nearest first, sites in number order."""
        beside: dict[int, list[int]] = {root: []}
        for a, b in edges:
            beside.setdefault(a, []).append(b)
            beside.setdefault(b, []).append(a)
        hops: list[Hop] = []
        seen, front = {root}, [root]
        for site in front:
            for onward in sorted(set(beside[site]) - seen):
                seen.add(onward)
                hops.append((site, onward))
                front.append(onward)
        return cls(root, tuple(hops))

    @classmethod
    def of_parents(cls, parents: Mapping[int, int], root: int) -> Tree:
        """Build the tree in which each site but the root has the given parent."""
        return cls.rooted(parents.items(), root)

    @cached_property
    def sites(self) -> frozenset[int]:
        """Every site of the tree."""
        return frozenset({self.root, *(child for _, child in self.hops)})

    def pruned(self, members: Collection[int]) -> Tree:
        """Return the tree without the branches that lead to no member."""
        needed = set(members)
        kept = []
        for parent, child in reversed(self.hops):
            if child in needed:
                needed.add(parent)
                kept.append((parent, child))
        return Tree(self.root, tuple(reversed(kept)))

    def depths_ns(self, network: Network, downwards: bool) -> dict[int, int]:
        """Return the WAN delay between the root and every site, down from it or up to it."""
        depth = {self.root: 0}
        for parent, child in self.hops:
            column = network.wan_column[(parent, child) if downwards else (child, parent)]
            depth[child] = depth[parent] + int(network.wan_delay_ns[column])
        return depth


@dataclass(frozen=True)
class Streams:
    """What an aggregation tree carries.

    Attributes:
        upward: streams over each hop, by child.
        summed: streams each accelerator takes in, by site; only where it sums.
        at_root: streams that leave the root's switch.
    """

    upward: Mapping[int, int]
    summed: Mapping[int, int]
    at_root: int


def upward_streams(tree: Tree, senders: Collection[int], fan_in: Sequence[int]) -> Streams:
    """Count the streams of an aggregation tree.

    Args:
        tree: its hops carry traffic from child to parent.
        senders: sites whose island sends one message, possibly the root's among them.
        fan_in: by site, the streams its accelerator can sum into one; 0 where there is none.
    """
    arriving = {site: int(site in senders) for site in tree.sites}
    upward: dict[int, int] = {}
    summed: dict[int, int] = {}

    def leaving(site: int) -> int:
        taken = min(arriving[site], fan_in[site])
        if taken < 2:
            return arriving[site]
        summed[site] = taken
        return arriving[site] - taken + 1

    for parent, child in reversed(tree.hops):
        upward[child] = leaving(child)
        arriving[parent] += upward[child]
    return Streams(upward, summed, leaving(tree.root))


def tree_from(network: Network, root: int, members: Collection[int]) -> Tree:
    """Return the least-delay tree that carries the root's message to members."""
    parents: dict[int, int] = {}
    for member in members:
        at = root
        while at != member:
            onward = int(network.next_hop[at, member])
            parents[onward] = at
            at = onward
    return Tree.of_parents(parents, root)


def tree_to(network: Network, root: int, members: Collection[int]) -> Tree:
    """Return the least-delay tree that carries messages of members up to the root."""
    parents: dict[int, int] = {}
    for member in members:
        at = member
        while at != root:
            parents[at] = int(network.next_hop[at, root])
            at = parents[at]
    return Tree.of_parents(parents, root)


def spanning_trees(network: Network, limit: int) -> tuple[tuple[tuple[Hop, ...], ...], bool]:
    """List spanning trees as edge sets, shortest total delay first, and whether these are all.

    Where the usable links do not connect all sites, a spanning forest stands in for a tree.
    """
    graph: Any = nx.Graph()
    graph.add_nodes_from(range(network.size))
    for column, (a, b) in enumerate(network.wan.tolist()):
        if a < b and network.usable[column]:
            back = network.wan_column[b, a]
            delay = int(network.wan_delay_ns[column] + network.wan_delay_ns[back])
            graph.add_edge(a, b, weight=delay)
    trees: list[tuple[Hop, ...]] = []
    for tree in nx.SpanningTreeIterator(graph):
        if len(trees) == limit:
            return tuple(trees), False
        trees.append(tuple(sorted((min(a, b), max(a, b)) for a, b in tree.edges)))
    return tuple(trees), nx.is_connected(graph)
