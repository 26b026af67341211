"""Topologies for tests: one by hand, and random connected ones."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from controller.intents import AggregationTree, MulticastTree
from topologies.model import DirectionSpec, Link, Site, Topology

DELAYS_MS = (1.0, 2.0, 2.5, 10.0)


def topology(codes: list[str], links: list[tuple[str, str, float]], name: str = "test") -> Topology:
    """A topology of links (a, b, one-way delay in ms) at 100 Mbit/s."""
    specs = [(a, b, DirectionSpec(100.0, delay)) for a, b, delay in links]
    return Topology(
        name=name,
        sites=tuple(Site(code, code, 0.0, 0.0) for code in codes),
        links=tuple(Link(a, b, spec, spec) for a, b, spec in specs),
        access={code: DirectionSpec(1000.0, 0.0) for code in codes},
        source="made for a test",
        licence="Apache-2.0",
    )


def triangle() -> Topology:
    """AMS-LON 1 ms, LON-NYC 2 ms, AMS-NYC 10 ms: the direct way from AMS to NYC is the longer."""
    return topology(
        ["AMS", "LON", "NYC"],
        [("AMS", "LON", 1.0), ("LON", "NYC", 2.0), ("AMS", "NYC", 10.0)],
        "triangle",
    )


@st.composite
def connected_topologies(draw: st.DrawFn, most_sites: int = 8) -> Topology:
    """Random connected topologies with ties among their delays."""
    count = draw(st.integers(2, most_sites))
    codes = draw(st.permutations([f"S{number:02d}" for number in range(count)]))
    delay = st.sampled_from(DELAYS_MS)
    links = {
        frozenset((codes[i], codes[draw(st.integers(0, i - 1))])): draw(delay)
        for i in range(1, count)
    }
    pairs = st.lists(st.tuples(st.sampled_from(codes), st.sampled_from(codes)), max_size=count)
    for a, b in draw(pairs):
        if a != b:
            links.setdefault(frozenset((a, b)), draw(delay))
    return topology(sorted(codes), [(*sorted(ends), ms) for ends, ms in links.items()])


Hops = tuple[tuple[str, str], ...]


@st.composite
def hops_to(draw: st.DrawFn, net: Topology, root: str, ends: Collection[str]) -> Hops:
    """A random tree of a network from a root to these sites, on any links, not the shortest."""
    beside: dict[str, set[str]] = {code: set() for code in net.codes}
    for link in net.links:
        beside[link.a].add(link.b)
        beside[link.b].add(link.a)
    parent: dict[str, str] = {}
    while edge := sorted((a, b) for a in {root, *parent} for b in beside[a] - {root, *parent}):
        a, b = draw(st.sampled_from(edge))
        parent[b] = a
    hops = set()
    for end in ends:
        while end != root:
            hops.add((parent[end], end))
            end = parent[end]
    return tuple(sorted(hops))


@st.composite
def multicast_trees(draw: st.DrawFn, net: Topology, tree_id: int = 1) -> MulticastTree:
    """A random multicast tree, from an island or an accelerator, to both kinds of receivers."""
    root, at_island = draw(st.sampled_from(net.codes)), draw(st.booleans())
    sites = st.sets(st.sampled_from(net.codes))
    receivers, accelerators = draw(sites), draw(sites)
    (receivers if at_island else accelerators).discard(root)
    hops = draw(hops_to(net, root, receivers | accelerators))
    return MulticastTree(
        tree_id, "239.192.0.1", root, hops, tuple(receivers), at_island, tuple(accelerators)
    )


@st.composite
def aggregation_trees(
    draw: st.DrawFn, net: Topology, tree_id: int = 1, fan_in: bool = False
) -> AggregationTree:
    """A random aggregation tree that sums at some of the sites where something arrives."""
    root, at_island = draw(st.sampled_from(net.codes)), draw(st.booleans())
    others = [code for code in net.codes if code != root]
    members = draw(st.sets(st.sampled_from(others if at_island else net.codes), min_size=1))
    hops = draw(hops_to(net, root, members))
    sites = sorted({root, *(child for _, child in hops)})
    sums_at = draw(st.sets(st.sampled_from(sites))) | (set() if at_island else {root})
    limited = sums_at - (set() if at_island else {root}) if fan_in else set()
    limits = tuple((site, draw(st.integers(1, 3))) for site in sorted(limited))
    return AggregationTree(tree_id, root, hops, tuple(members), tuple(sums_at), at_island, limits)
