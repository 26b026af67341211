"""Least-cost trees through a few sites of a network: the Steiner tree problem.

Exact by the dynamic program of Dreyfus and Wagner (Networks 1, 1971): the best tree from site v to
a set of terminals either goes on to another site first or splits the set at v. That takes
3^k steps for k terminals, on directed costs as well. Above `EXACT_TERMINALS` the tree of Mehlhorn
(Information Processing Letters 27, 1988), as networkx has it, costs at most twice the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from networkx.algorithms.approximation import steiner_tree as networkx_steiner_tree
from scipy.sparse.csgraph import floyd_warshall

from schedules.network import FloatArray, IntArray
from schedules.trees import Hop, Tree

EXACT_TERMINALS = 8
FREE_HOP = 1e-12


@dataclass(frozen=True)
class SteinerTable:
    """Costs of least trees from every site to every set of terminals.

    Attributes:
        terminals: the sites that a set's bits stand for, in order.
        cost: (2^k, N) least cost of a tree from a site to a set; inf where none leads.
        part: (2^k, N) the subset split off at the site where the tree branches.
        branch: (2^k, N) the site where the tree from here branches, or ends.
        onward: (N, N) next site on a shortest path, -1 where none leads.
    """

    terminals: tuple[int, ...]
    cost: FloatArray
    part: IntArray
    branch: IntArray
    onward: IntArray

    def tree(self, root: int, wanted: int) -> Tree:
        """Return a least tree from the root to the set `wanted`, a bit for each terminal."""
        parents: dict[int, int] = {}
        pending = [(root, wanted)]
        while pending:
            site, subset = pending.pop()
            fork = int(self.branch[subset, site])
            self._walk(site, fork, parents)
            part = int(self.part[subset, fork])
            if part:
                pending += [(fork, part), (fork, subset ^ part)]
        return Tree.of_parents({child: p for child, p in parents.items() if child != root}, root)

    def _walk(self, start: int, end: int, parents: dict[int, int]) -> None:
        while start != end:
            onward = int(self.onward[start, end])
            parents.setdefault(onward, start)
            start = onward


def steiner_table(weights: FloatArray, terminals: Sequence[int]) -> SteinerTable:
    """Tabulate least trees from every site to every subset of the terminals.

    Args:
        weights: (N, N) cost of the hop from a site to its neighbour, inf where there is no link.
        terminals: at most a dozen or so: time and memory grow as 3^k and 2^k.
    """
    # A dense scipy graph takes a zero for a missing link, so a free hop costs next to nothing; and
    # scipy computes nonsense, with no more than a warning, unless rows are contiguous.
    priced = np.ascontiguousarray(np.maximum(weights, FREE_HOP))
    distance, before = floyd_warshall(priced, return_predecessors=True)
    size, count = len(weights), len(terminals)
    cost = np.full((1 << count, size), np.inf)
    part = np.zeros((1 << count, size), dtype=np.int64)
    branch = np.tile(np.arange(size), (1 << count, 1))
    for bit, terminal in enumerate(terminals):
        cost[1 << bit] = distance[:, terminal]
        branch[1 << bit] = terminal
    for subset in range(1, 1 << count):
        if subset & (subset - 1):
            _fill(subset, cost, part, branch, distance)
    return SteinerTable(tuple(terminals), cost, part, branch, _onward(before))


def _fill(
    subset: int, cost: FloatArray, part: IntArray, branch: IntArray, distance: FloatArray
) -> None:
    parts = _parts(subset)
    split = cost[parts] + cost[subset ^ parts]
    best = split.argmin(axis=0)
    here = split[best, np.arange(len(distance))]
    part[subset] = parts[best]
    reached = distance + here[None, :]
    branch[subset] = reached.argmin(axis=1)
    cost[subset] = reached.min(axis=1)


def _parts(subset: int) -> IntArray:
    """Return the proper parts of a set that contain its lowest member: each split once."""
    lowest = subset & -subset
    rest, parts = subset ^ lowest, []
    part = rest
    while part:
        part = (part - 1) & rest
        parts.append(part | lowest)
    return np.array(parts, dtype=np.int64)


def _onward(before: IntArray) -> IntArray:
    """Turn predecessors (last site before the target) into next sites (first after the source).

    A predecessor table read backwards is a next-site table of the reversed graph, so the next site
    from a is found by walking the predecessors of the target back to a.
    """
    size = len(before)
    onward = np.full((size, size), -1, dtype=np.int64)
    for source in range(size):
        for target in np.flatnonzero(before[source] >= 0).tolist():
            at = target
            while before[source, at] != source:
                at = int(before[source, at])
            onward[source, target] = at
    return onward


def steiner_tree(weights: FloatArray, root: int, terminals: Sequence[int]) -> Tree:
    """Return a tree of little cost from a root to terminals.

    Args:
        weights: (N, N) cost of the hop from parent to child, inf where there is no link.
        root: where the tree starts.
        terminals: sites it must reach; least cost up to `EXACT_TERMINALS` of them, above that at
            most twice the least, counting each link at the dearer of its directions.

    Raises:
        ValueError: when the links do not reach every terminal.
    """
    wanted = sorted(set(terminals) - {root})
    if len(wanted) > EXACT_TERMINALS:
        return _approximate(weights, root, wanted)
    table = steiner_table(weights, wanted)
    everything = (1 << len(wanted)) - 1
    if not np.isfinite(table.cost[everything, root]):
        raise ValueError("the links do not reach every terminal")
    return table.tree(root, everything).pruned(wanted)


def _approximate(weights: FloatArray, root: int, terminals: Sequence[int]) -> Tree:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_node(root)
    dearer = np.maximum(weights, weights.T)
    graph.add_weighted_edges_from(
        (int(a), int(b), float(dearer[a, b])) for a, b in np.argwhere(np.isfinite(dearer)) if a < b
    )
    if not all(node in graph and nx.has_path(graph, root, node) for node in terminals):
        raise ValueError("the links do not reach every terminal")
    edges: list[Hop] = list(networkx_steiner_tree(graph, [root, *terminals]).edges)
    return Tree.rooted(edges, root).pruned(terminals)
