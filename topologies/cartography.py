"""The geometry of a network's map: what to show, where to cut the world, how links bend.

A flat map of the round world has a seam, and a link over it falls in two; the seam goes where the
fewest links cross. Cities too near each other to be told apart form a *crowd*, which a picture
draws once more, larger. Links are gentle arcs for legibility, not the routes of cables.

The projection is Miller's cylindrical one (1942): familiar shapes without Mercator's giant north.
Map coordinates are degrees: x east, y as high as that many degrees are wide at the equator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from topologies.model import Link, Site, Topology

Floats = NDArray[np.float64]

OUTLINE_FILE = Path(__file__).parent / "land_110m.json"
SEAMS = (-170.0, -30.0, 62.0)  # Bering Strait, mid-Atlantic, between Europe and India
TURNS = (-360.0, 0.0, 360.0)
WORLD_SPAN_DEGREES = 150.0
REGION_ASPECT = 1.75
ANTARCTIC_CENTIDEGREES = -6000
CROWDED_FRACTION = 0.035  # of a map's width: nearer cities share a spot
NEAR_CROWD_FRACTION = 0.06


def miller(latitude: float) -> float:
    """Return the height on the map of a latitude in degrees."""
    return math.degrees(1.25 * math.log(math.tan(math.pi / 4 + 0.4 * math.radians(latitude))))


@dataclass(frozen=True)
class Window:
    """The part of the flat world that is shown; x may lie beyond 180 degrees."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def width(self) -> float:
        """How wide it is, in degrees."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """How high it is, in degrees at the equator."""
        return self.top - self.bottom

    def place(self, site: Site) -> Floats:
        """Return a city's x and y, turned round the world into this window."""
        centre = (self.left + self.right) / 2
        return np.array([turned(site.longitude, centre), miller(site.latitude)])

    def shows(self, line: Floats) -> bool:
        """Whether some of a line's x range is within the window."""
        return bool(line[:, 0].max() > self.left and line[:, 0].min() < self.right)

    def inside(self, points: Floats) -> Floats:
        """Return those of the points that are within the window."""
        x, y = points[:, 0], points[:, 1]
        held = (x > self.left) & (x < self.right) & (y > self.bottom) & (y < self.top)
        return points[held]


def turned(longitude: float, centre: float) -> float:
    """Return the longitude, moved by whole turns, that is nearest to `centre`."""
    return longitude + 360 * round((centre - longitude) / 360)


def crossings(topology: Topology, seam: float) -> int:
    """Return how many links pass a seam at that longitude when they go the short way round."""
    xs = {site.code: (site.longitude - seam) % 360 for site in topology.sites}
    return sum(abs(xs[link.a] - xs[link.b]) > 180 for link in topology.links)


def window_of(topology: Topology) -> Window:
    """Choose what to show: the world, cut where the fewest links cross, or only the region."""
    seam = min(SEAMS, key=lambda longitude: crossings(topology, longitude))
    xs = [(site.longitude - seam) % 360 + seam for site in topology.sites]
    ys = [miller(site.latitude) for site in topology.sites]
    if max(xs) - min(xs) > WORLD_SPAN_DEGREES:
        return Window(seam, seam + 360, min(min(ys) - 16, -48.0), max(max(ys) + 16, 80.0))
    return window_around(xs, ys, margin=0.14, aspect=REGION_ASPECT)


def window_around(xs: Sequence[float], ys: Sequence[float], margin: float, aspect: float) -> Window:
    """Return the smallest window of that width to height around points, with a margin.

    Args:
        xs: the points' x, in degrees.
        ys: the points' y.
        margin: the part of the points' own span to add on every side.
        aspect: width over height.
    """
    span_x, span_y = max(xs) - min(xs), max(ys) - min(ys)
    width = max(span_x, span_y * aspect, 1.0) * (1 + 2 * margin)
    height = width / aspect
    x, y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return Window(x - width / 2, x + width / 2, y - height / 2, y + height / 2)


@cache
def land_rings() -> tuple[Floats, ...]:
    """Return the outlines of the continents but Antarctica, each an array of points."""
    rings = json.loads(OUTLINE_FILE.read_text(encoding="utf-8"))["rings_centidegrees"]
    return tuple(_ring(ring) for ring in rings if max(ring[1::2]) > ANTARCTIC_CENTIDEGREES)


def _ring(centidegrees: list[int]) -> Floats:
    """Return a ring's points; one that passes the 180th meridian goes on beyond it."""
    longitudes = np.unwrap(np.array(centidegrees[::2]) / 100, period=360)
    return np.column_stack([longitudes, [miller(y / 100) for y in centidegrees[1::2]]])


def arc(start: Floats, end: Floats, bend: float, points: int = 121) -> Floats:
    """Return points on an arc that bulges, by `bend` of its length, away from the equator."""
    chord = end - start
    normal = np.array([-chord[1], chord[0]])
    poleward = 1 if start[1] + end[1] >= 0 else -1
    if normal[1] * poleward < 0:
        normal = -normal
    control = (start + end) / 2 + 2 * bend * normal
    t = np.linspace(0, 1, points)[:, None]
    return np.asarray((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end)


def link_arcs(link: Link, topology: Topology, window: Window) -> list[Floats]:
    """Return a link's arc from a to b, twice where the seam cuts it in two."""
    start, end = (window.place(topology.site(code)) for code in (link.a, link.b))
    end[0] = turned(float(end[0]), float(start[0]))
    whole = arc(start, end, bend=0.06)
    shifted = [whole + np.array([turn, 0.0]) for turn in TURNS]
    return [line for line in shifted if window.shows(line)]


def crowds(topology: Topology, window: Window) -> list[list[Site]]:
    """Return the groups of cities too near each other to be told apart in this window.

    Crowds that are near each other are one, so that a picture needs few frames.
    """
    places = {site.code: window.place(site) for site in topology.sites}
    crowded = set().union(*_groups(places, CROWDED_FRACTION * window.width))
    held = {code: at for code, at in places.items() if code in crowded}
    groups = _groups(held, NEAR_CROWD_FRACTION * window.width)
    return [[topology.site(code) for code in group] for group in groups]


def _groups(places: Mapping[str, Floats], reach: float) -> list[list[str]]:
    """Return the groups of two or more places joined by steps shorter than `reach`."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(
        (a, b) for a, b in combinations(places, 2) if math.dist(places[a], places[b]) < reach
    )
    return sorted(sorted(group) for group in nx.connected_components(graph))
