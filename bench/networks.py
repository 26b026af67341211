"""Random wide-area networks for measurements: the same seed gives the same network."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np

from topologies.geography import fibre_delay_ms, great_circle_km
from topologies.model import Access, DirectionSpec, Link, Site, Topology

LOCALITY = 0.15
ROUTE_OVER_GREAT_CIRCLE = 1.3
RATE_MBPS = 10_000.0


def waxman(sites: int, links: int, seed: int, rate_mbps: float = RATE_MBPS) -> Topology:
    """Return a connected network of sites strewn over a part of the globe.

    A shortest tree connects all of it; further links are drawn with Waxman's odds (IEEE J. Sel.
    Areas Commun. 6, 1988), exp(-distance / (locality x longest distance)). Delays are those of
    fibre 1.3 times as long as the great circle.
    """
    random = np.random.default_rng(seed)
    places = np.column_stack([random.uniform(10, 60, sites), random.uniform(-120, 30, sites)])
    km = np.array([[great_circle_km(*a, *b) for b in places] for a in places])
    whole: nx.Graph[int] = nx.Graph()
    whole.add_weighted_edges_from((a, b, km[a, b]) for a, b in combinations(range(sites), 2))
    ends = {(min(edge), max(edge)) for edge in nx.minimum_spanning_edges(whole, data=False)}
    rest = [pair for pair in combinations(range(sites), 2) if pair not in ends]
    odds = np.array([np.exp(-km[pair] / (LOCALITY * km.max())) for pair in rest])
    drawn = random.choice(len(rest), max(0, links - len(ends)), replace=False, p=odds / odds.sum())
    ends |= {rest[number] for number in drawn}
    return _topology(f"waxman{sites}", places, km, sorted(ends), rate_mbps)


def _topology(
    name: str,
    places: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    km: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    ends: list[tuple[int, int]],
    rate_mbps: float,
) -> Topology:
    codes = [f"S{number:04d}" for number in range(len(places))]

    def link(a: int, b: int) -> Link:
        delay_ms = fibre_delay_ms(float(km[a, b]) * ROUTE_OVER_GREAT_CIRCLE)
        spec = DirectionSpec(rate_mbps, delay_ms)
        return Link(codes[a], codes[b], spec, spec)

    return Topology(
        name=name,
        sites=tuple(
            Site(c, c, float(p[0]), float(p[1])) for c, p in zip(codes, places, strict=True)
        ),
        links=tuple(link(a, b) for a, b in ends),
        access={code: Access(rate_mbps) for code in codes},
        source="drawn at random",
        licence="none needed",
    )
