"""Topologies for tests: one by hand, and random connected ones."""

from __future__ import annotations

from hypothesis import strategies as st

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
