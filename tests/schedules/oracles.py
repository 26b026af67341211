"""What the planner computes, computed again by other means: networkx, plain loops and other LPs.

Nothing here imports the planner. Sites are codes, loads are counted in dictionaries, partitions
come from recursion, trees from trying every set of links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
from scipy.optimize import linprog

from topologies.model import Topology

Way = tuple[str, str]
Blocks = tuple[tuple[str, ...], ...]
Tree = frozenset[Way]


def island(code: str) -> str:
    return f"{code}.island"


def delays(topology: Topology) -> nx.DiGraph:
    """Return the WAN with delays in nanoseconds."""
    graph = nx.DiGraph()
    graph.add_nodes_from(topology.codes)
    for way, spec in topology.wan_directions().items():
        graph.add_edge(way.source, way.target, ns=max(1, round(spec.one_way_delay_ms * 1e6)))
    return graph


def rates(topology: Topology) -> dict[Way, float]:
    """Return the rate of every direction in Mbit/s, access ports among them."""
    found = {(w.source, w.target): s.rate_mbps for w, s in topology.wan_directions().items()}
    for code, spec in topology.access.items():
        found[island(code), code] = found[code, island(code)] = spec.rate_mbps
    return found


def seconds(topology: Topology, loads: Counter[Way], message_bytes: float) -> float:
    """Return the time of the busiest direction for loads in messages."""
    known = rates(topology)
    return max(8 * message_bytes * load / (known[way] * 1e6) for way, load in loads.items())


# --- partitions -----------------------------------------------------------------------------------


def partitions(items: Sequence[str]) -> Iterator[Blocks]:
    """Yield every way to divide items into blocks: the first with any others, then the rest."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for count in range(len(rest) + 1):
        for others in combinations(rest, count):
            left = [item for item in rest if item not in others]
            for blocks in partitions(left):
                yield ((first, *others), *blocks)


def several(blocks: Blocks) -> Blocks:
    """Return the blocks that are not idle."""
    return tuple(block for block in blocks if len(block) > 1)


# --- unicast --------------------------------------------------------------------------------------


class Unicast:
    """Routes by Dijkstra, found once."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        graph = delays(topology)
        self.routes: dict[Way, list[Way]] = {}
        self.ns: dict[Way, int] = {}
        for a in topology.codes:
            for b in topology.codes:
                if a != b:
                    path = nx.dijkstra_path(graph, a, b, weight="ns")
                    self.routes[a, b] = [(island(a), a), *pairwise(path), (b, island(b))]
                    ports = topology.access[a], topology.access[b]
                    self.ns[a, b] = nx.path_weight(graph, path, "ns") + sum(
                        round(port.one_way_delay_ms * 1e6) for port in ports
                    )

    def exchange(self, blocks: Iterable[tuple[str, ...]]) -> Counter[Way]:
        loads: Counter[Way] = Counter()
        for block in blocks:
            for a in block:
                for b in block:
                    if a != b:
                        loads.update(self.routes[a, b])
        return loads

    def ring(self, orders: Iterable[tuple[str, ...]]) -> dict[Way, float]:
        loads: Counter[Way] = Counter()
        for order in orders:
            for a, b in zip(order, [*order[1:], order[0]], strict=True):
                for way in self.routes[a, b]:
                    loads[way] += 2 * (len(order) - 1) / len(order)  # type: ignore[assignment]
        return loads

    def ring_ns(self, order: tuple[str, ...]) -> int:
        """Walk every chunk around: from each start, 2(n-1) hops in a row."""
        hops = [self.ns[a, b] for a, b in zip(order, [*order[1:], order[0]], strict=True)]
        steps = 2 * (len(order) - 1)
        return max(
            sum(hops[(start + step) % len(order)] for step in range(steps))
            for start in range(len(order))
        )


# --- trees ----------------------------------------------------------------------------------------


def trees(topology: Topology, terminals: Iterable[str]) -> list[nx.Graph]:
    """Return every tree of links that joins the terminals and has no leaf that is none of them."""
    wanted = set(terminals)
    links = [(link.a, link.b) for link in topology.links]
    found = []
    for count in range(len(wanted) - 1, len(topology.codes)):
        for chosen in combinations(links, count):
            graph = nx.Graph(chosen)
            graph.add_nodes_from(wanted)
            if nx.is_tree(graph) and all(graph.degree[n] > 1 or n in wanted for n in graph):
                found.append(graph)
    return found


def least_links(topology: Topology, terminals: Iterable[str]) -> int:
    return min(tree.number_of_edges() for tree in trees(topology, terminals))


def downward(tree: nx.Graph, root: str, receivers: Iterable[str]) -> Counter[Way]:
    """Return a copy over each hop from the root to receivers, and down to their islands."""
    hops = {hop for end in receivers for hop in pairwise(nx.shortest_path(tree, root, end))}
    return Counter([*hops, *((end, island(end)) for end in receivers)])


def upward(
    tree: nx.Graph, root: str, senders: Iterable[str], sums: Callable[[str], bool]
) -> tuple[Counter[Way], int]:
    """Return streams from senders over each hop to the root, and how many leave the root."""
    loads: Counter[Way] = Counter((island(code), code) for code in senders)

    def leaving(site: str, parent: str | None) -> int:
        arriving = int(site in set(senders))
        for child in tree[site]:
            if child != parent:
                streams = leaving(child, site)
                if streams:
                    loads[child, site] += streams
                arriving += streams
        return min(arriving, 1) if sums(site) else arriving

    return loads, leaving(root, None)


def depth_ns(topology: Topology, tree: nx.Graph, root: str, end: str, down: bool) -> int:
    graph = delays(topology)
    path = nx.shortest_path(tree, root, end) if down else nx.shortest_path(tree, end, root)
    port = round(topology.access[end].one_way_delay_ms * 1e6)
    return int(nx.path_weight(graph, path, "ns")) + port


Option = tuple[Counter[Way], int]


def options(
    topology: Topology, collective: str, block: tuple[str, ...], sums: Callable[[str], bool]
) -> list[list[Option]]:
    """Return, for each message that a block must carry, loads and latency of every way to do so."""
    if collective == "innetwork":
        return [_in_network(topology, block, sums)]
    return [
        [_one_way(topology, collective, block, root, tree, sums) for tree in trees(topology, block)]
        for root in block
    ]


def _one_way(
    topology: Topology,
    collective: str,
    block: tuple[str, ...],
    root: str,
    tree: nx.Graph,
    sums: Callable[[str], bool],
) -> Option:
    others = [code for code in block if code != root]
    port = round(topology.access[root].one_way_delay_ms * 1e6)
    down = collective == "multicast"
    latency = port + max(depth_ns(topology, tree, root, code, down) for code in others)
    if down:
        return downward(tree, root, others) + Counter([(island(root), root)]), latency
    loads, streams = upward(tree, root, others, sums)
    loads[root, island(root)] += streams
    return loads, latency


def _in_network(
    topology: Topology, block: tuple[str, ...], sums: Callable[[str], bool]
) -> list[Option]:
    found = []
    for root in topology.codes:
        reach = trees(topology, {*block, root})
        for up in reach:
            loads, streams = upward(up, root, block, sums)
            for down in reach if streams == 1 else ():
                ns = max(depth_ns(topology, up, root, code, down=False) for code in block)
                ns += max(depth_ns(topology, down, root, code, down=True) for code in block)
                found.append((loads + downward(down, root, block), ns))
    return found


def fastest_trees(
    topology: Topology,
    collective: str,
    blocks: Blocks,
    message_bytes: float,
    latency: bool = False,
    sums: Callable[[str], bool] = lambda site: True,
) -> float:
    """Return the least seconds of a round of trees, messages split among trees at will.

    Written as the most messages a second (not the least time of one): shares add up to a rate that
    all have in common, and no direction carries more than it can.
    """
    messages = [m for block in blocks for m in options(topology, collective, block, sums)]
    if not latency:
        return 1 / _most_rate(topology, messages, message_bytes)
    caps = sorted({ns for message in messages for _, ns in message})
    best = np.inf
    for cap in caps:
        within = [[option for option in message if option[1] <= cap] for message in messages]
        if all(within):
            best = min(best, cap * 1e-9 + 1 / _most_rate(topology, within, message_bytes))
    return best


def _most_rate(topology: Topology, messages: list[list[Option]], message_bytes: float) -> float:
    known = rates(topology)
    ways = sorted(known)
    columns = [(n, loads) for n, message in enumerate(messages) for loads, _ in message]
    carried = np.zeros((len(ways), len(columns) + 1))
    shares = np.zeros((len(messages), len(columns) + 1))
    shares[:, -1] = -1
    for place, (message, loads) in enumerate(columns):
        shares[message, place] = 1
        for way, count in loads.items():
            carried[ways.index(way), place] = count
    capacity = np.array([known[way] * 1e6 / (8 * message_bytes) for way in ways])
    result = linprog(
        [0.0] * len(columns) + [-1.0],
        A_ub=carried,
        b_ub=capacity,
        A_eq=shares,
        b_eq=np.zeros(len(messages)),
        method="highs-ipm",
    )
    return float(result.x[-1])


# --- objectives -----------------------------------------------------------------------------------


def fairest_rate(times: dict[Blocks, float]) -> float:
    """Return the largest rate of every unordered pair, by the covering program of its dual.

    Prices of the pairs add up to one; the dearest round per second is what they cost.
    """
    codes = sorted({code for blocks in times for block in blocks for code in block})
    pairs = list(combinations(codes, 2))
    rows = [
        [float(any(set(pair) <= set(block) for block in blocks)) for pair in pairs] + [-time]
        for blocks, time in times.items()
    ]
    result = linprog(
        [0.0] * len(pairs) + [1.0],
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.array([[1.0] * len(pairs) + [0.0]]),
        b_eq=[1.0],
        method="highs-ipm",
    )
    return float(result.fun)


def averaging(blocks: Blocks, codes: Sequence[str]) -> np.ndarray:
    home = {code: block for block in blocks for code in block}
    return np.array([[(b in home[a]) / len(home[a]) for b in codes] for a in codes])


def shortest_mean(times: dict[Blocks, float], codes: Sequence[str], most_rounds: int) -> float:
    """Return the shortest sequence of rounds whose averages multiply to the exact mean.

    Every sequence is tried, whatever its weights on the way; times are of full partitions.
    """
    size = len(codes)
    matrices = np.array([averaging(blocks, codes) for blocks in times])
    each = np.array(list(times.values()))
    states, spent, best = np.eye(size)[None], np.zeros(1), np.inf
    for _ in range(most_rounds):
        products = np.einsum("sij,pjk->spik", states, matrices).reshape(-1, size * size).round(9)
        total = (spent[:, None] + each[None, :]).ravel()
        exact = (np.abs(products - 1 / size) < 1e-6).all(axis=1)
        best = min(best, total[exact].min(initial=np.inf))
        order = np.argsort(total, kind="stable")
        order = order[total[order] < best]
        states, first = np.unique(products[order], axis=0, return_index=True)
        states, spent = states.reshape(-1, size, size), total[order][first]
    return float(best)
