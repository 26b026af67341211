"""Random wide-area networks for measurements: the same seed gives the same network."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from topologies.geography import EARTH_MEAN_RADIUS_KM, fibre_delay_ms
from topologies.model import Access, DirectionSpec, Link, Site, Topology

LOCALITY = 0.15
ROUTE_OVER_GREAT_CIRCLE = 1.3
RATE_MBPS = 10_000.0

FloatArray = NDArray[np.float64]


def waxman(sites: int, links: int, seed: int, rate_mbps: float = RATE_MBPS) -> Topology:
    """Return a connected network of sites strewn over a part of the globe.

    A shortest tree connects all of it; further links are drawn with Waxman's odds (IEEE J. Sel.
    Areas Commun. 6, 1988), exp(-distance / (locality x longest distance)). Delays are those of
    fibre 1.3 times as long as the great circle.
    """
    random = np.random.default_rng(seed)
    places = np.column_stack([random.uniform(10, 60, sites), random.uniform(-120, 30, sites)])
    km = distances_km(places)
    tree = nx.from_scipy_sparse_array(minimum_spanning_tree(km))
    ends = {(min(edge), max(edge)) for edge in tree.edges}
    taken = np.tri(sites, dtype=np.bool_)
    taken[tuple(np.array(sorted(ends)).T)] = True
    rest = np.argwhere(~taken)
    odds = np.exp(-km[~taken] / (LOCALITY * km.max()))
    drawn = random.choice(len(rest), max(0, links - len(ends)), replace=False, p=odds / odds.sum())
    ends |= {(a, b) for a, b in rest[drawn].tolist()}
    return _topology(f"waxman{sites}", places, km, sorted(ends), rate_mbps)


def distances_km(places: FloatArray) -> FloatArray:
    """Return (N, N) great circles between places given in degrees of latitude and longitude."""
    latitude, longitude = np.radians(places).T
    chord = np.sin((latitude[:, None] - latitude) / 2) ** 2
    turn = np.sin((longitude[:, None] - longitude) / 2) ** 2
    chord += np.cos(latitude[:, None]) * np.cos(latitude) * turn
    return np.asarray(2 * EARTH_MEAN_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0, 1))))


def _topology(
    name: str,
    places: FloatArray,
    km: FloatArray,
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
