"""Rounds to begin with: groups of islands near each other, and groups that reach across.

Near groups keep delays and links short. A group that takes one island of each near group (the
columns of a grid whose rows are near groups) spreads what the near groups know.
"""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform

from schedules.cost import Clique
from schedules.network import FloatArray, IntArray, Network
from schedules.search import Partition

MATCHED_SITES = 300
ORDERED_SITES = 400
NEIGHBOURS_MATCHED = 8


def distances(network: Network) -> FloatArray:
    """Return (N, N) symmetric delays, zero from an island to itself."""
    longer = np.maximum(network.delay_ns, network.delay_ns.T).astype(np.float64)
    np.fill_diagonal(longer, 0.0)
    return np.asarray(longer, dtype=np.float64)


def near_order(distance: FloatArray) -> IntArray:
    """Return islands in an order in which neighbours are near (leaves of an average-link tree)."""
    if len(distance) < 3:
        return np.arange(len(distance))
    condensed = squareform(distance, checks=False)
    tree = linkage(condensed, method="average")
    if len(distance) <= ORDERED_SITES:
        tree = optimal_leaf_ordering(tree, condensed)
    return np.asarray(leaves_list(tree), dtype=np.int64)


def near_groups(order: IntArray, members: int) -> Partition:
    """Return consecutive groups of so many; the last takes what is left over."""
    count = max(1, len(order) // members)
    places = np.linspace(0, len(order), count + 1).round().astype(int)
    groups = [order[low:high] for low, high in pairwise(places.tolist())]
    return tuple(sorted(tuple(sorted(group.tolist())) for group in groups))


def linked_groups(distance: FloatArray, groups: int) -> Partition:
    """Return so many groups of small diameter, of whatever sizes (complete linkage)."""
    tree = linkage(squareform(distance, checks=False), method="complete")
    labels = fcluster(tree, groups, criterion="maxclust")
    found = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return tuple(sorted(tuple(group.tolist()) for group in found))


def across(groups: Partition, distance: FloatArray) -> Partition:
    """Return groups that take one island of each given group, of equal size, near ones together.

    Islands of two neighbouring groups are matched for least total distance, group after group.
    """
    columns = [[site] for site in groups[0]]
    for group in groups[1:]:
        sites = list(group)
        gap = np.array([[distance[c[-1], site] for site in sites] for c in columns])
        rows, chosen = _assigned(gap)
        for row, place in zip(rows, chosen, strict=True):
            columns[row].append(sites[place])
    return tuple(sorted(tuple(sorted(column)) for column in columns))


def _assigned(cost: FloatArray) -> tuple[list[int], list[int]]:
    rows, columns = linear_sum_assignment(cost)
    return rows.tolist(), columns.tolist()


def pairs(distance: FloatArray) -> Partition:
    """Return a matching of nearby islands, as many as possible, of little total distance."""
    size = len(distance)
    if size > MATCHED_SITES:
        return near_groups(near_order(distance), 2)
    graph: nx.Graph[int] = nx.Graph()
    near = np.argsort(distance, axis=1, kind="stable")[:, 1 : NEIGHBOURS_MATCHED + 1]
    for site in range(size):
        for other in near[site].tolist():
            graph.add_edge(site, other, weight=float(distance[site, other]) / 1e6)
    matching = nx.min_weight_matching(graph)
    return tuple(sorted((min(a, b), max(a, b)) for a, b in matching))


def starting_rounds(network: Network, most: int) -> list[Partition]:
    """Return rounds of near groups, from pairs to one group of all, none above a size."""
    distance = distances(network)
    size = network.size
    order = near_order(distance)
    found: list[Partition] = [pairs(distance)]
    members = 3
    while members <= size // 2:
        if members <= most:
            found += [near_groups(order, members), linked_groups(distance, -(-size // members))]
        members = members + 1 if members < 6 else int(members * 1.5)
    if size <= most:
        found.append((tuple(range(size)),))
    return list(dict.fromkeys(found))


def split_to(groups: Partition, order: IntArray, most: int) -> Partition:
    """Return groups of which none has more than so many, larger ones cut along the order."""
    place = np.argsort(order)
    found: list[Clique] = []
    for group in groups:
        along = np.array(sorted(group, key=lambda site: int(place[site])))
        parts = np.array_split(along, -(-len(along) // most))
        found += [tuple(sorted(part.tolist())) for part in parts]
    return tuple(sorted(found))
