"""The narrowest places of a network: cuts that limit what many islands can tell many others.

A cut is a set S of islands and switches; all that S tells the rest passes over the directions that
leave S. Islands hang on their switch by an access port of its own rate each way, so a set may hold
a switch without its island. Cuts are found by maximum flow, exact on directed rates: the least cut
between two vertices is as large as the largest flow (Ford and Fulkerson, Can. J. Math. 8, 1956).

The largest ratio |S| / rate out of S is found by raising it from cut to cut (Dinkelbach, Management
Science 13, 1967): at a time T every island sends its message through directions that carry T x rate
each; if an island cannot hear all of them, the cut in its way has a larger ratio than 1 / T.
Flows are computed in whole numbers, fine enough that what remains unseen is below a millionth; the
cuts themselves are rated exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from schedules.network import FloatArray, IntArray, Network

LARGEST_FLOW = 1 << 30


@dataclass(frozen=True)
class Cut:
    """A set of vertices that leaves some island outside.

    Attributes:
        islands: sites whose island is inside.
        rate_mbps: total rate of the directions that leave it.
    """

    islands: frozenset[int]
    rate_mbps: float


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """Switches (vertices 0 to N-1), islands (N to 2N-1) and a source (2N) that feeds the islands.

    Attributes:
        size: N.
        ends: (E, 2) the vertices of every direction.
        rate_mbps: (E,) its rate.
    """

    size: int
    ends: IntArray
    rate_mbps: FloatArray

    @classmethod
    def of(cls, network: Network) -> FlowGraph:
        """Lay out a network with its access ports."""
        switch = np.arange(network.size)
        up = np.stack([network.size + switch, switch], axis=1)
        ends = np.vstack([network.wan, up, up[:, ::-1]]).astype(np.int64)
        return cls(network.size, ends, network.rate_mbps[: len(ends)])

    def cut(self, vertices: FloatArray) -> Cut:
        """Rate the cut around some vertices."""
        inside = np.zeros(2 * self.size + 1, dtype=np.bool_)
        inside[vertices.astype(np.int64)] = True
        leaving = inside[self.ends[:, 0]] & ~inside[self.ends[:, 1]]
        islands = np.flatnonzero(inside[self.size : 2 * self.size])
        return Cut(frozenset(islands.tolist()), float(self.rate_mbps[leaving].sum()))

    def least_cut(self, capacity: IntArray, fed: int, source: int, sink: int) -> tuple[int, Cut]:
        """Return the largest flow between two vertices and the cut that stops it.

        Args:
            capacity: (E,) of every direction.
            fed: what the source vertex may feed each island.
            source: where the flow starts.
            sink: where it ends.
        """
        islands = np.arange(self.size, 2 * self.size)
        rows = np.concatenate([self.ends[:, 0], np.full(self.size, 2 * self.size)])
        columns = np.concatenate([self.ends[:, 1], islands])
        data = np.concatenate([capacity, np.full(self.size, fed)]).astype(np.int32)
        graph = csr_matrix((data, (rows, columns)), shape=(2 * self.size + 1,) * 2)
        found = maximum_flow(graph, source, sink)
        left = graph - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = breadth_first_order(left, source, return_predecessors=False)
        return int(found.flow_value), self.cut(reached)


def tightest_cut(graph: FlowGraph) -> Cut:
    """Return the cut of most islands inside over the rate that leaves it (ForestColl)."""
    best = min(_around_islands(graph), key=lambda cut: cut.rate_mbps / len(cut.islands))
    scale = LARGEST_FLOW // graph.size
    unimproved, sink = 0, 0
    while unimproved < graph.size:
        capacity = len(best.islands) / best.rate_mbps * graph.rate_mbps * scale
        whole = np.minimum(np.ceil(capacity), LARGEST_FLOW).astype(np.int64)
        flow, cut = graph.least_cut(whole, scale, 2 * graph.size, graph.size + sink)
        unimproved, sink = unimproved + 1, (sink + 1) % graph.size
        if flow < scale * graph.size and _ratio(cut) > _ratio(best):
            best, unimproved = cut, 0
    return best


def _ratio(cut: Cut) -> float:
    return len(cut.islands) / cut.rate_mbps


def narrowest_cut(graph: FlowGraph) -> Cut:
    """Return the cut of least rate that has islands on both sides."""
    best = min(_around_islands(graph), key=lambda cut: cut.rate_mbps)
    first = graph.size
    for other in range(graph.size + 1, 2 * graph.size):
        for source, sink in ((first, other), (other, first)):
            capacity = graph.rate_mbps / best.rate_mbps * (LARGEST_FLOW // 4)
            whole = np.minimum(np.ceil(capacity), LARGEST_FLOW // 2).astype(np.int64)
            cut = graph.least_cut(whole, 0, source, sink)[1]
            if cut.rate_mbps < best.rate_mbps:
                best = cut
    return best


def _around_islands(graph: FlowGraph) -> Iterator[Cut]:
    """Yield the cuts at access ports: an island alone, and everything but an island."""
    everything = np.arange(2 * graph.size)
    for island in range(graph.size, 2 * graph.size):
        yield graph.cut(np.array([island]))
        yield graph.cut(everything[everything != island])
