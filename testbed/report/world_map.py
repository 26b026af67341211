"""The network on a map of the world, as geometry that a page draws and its script recolours.

Traffic keeps to the right of its link, so that both directions are told apart. The projection, the
window, the arcs, the frames for crowds of cities and the places of labels are those of the pictures
of topologies (topologies.cartography, topologies.labels). A map is laid out twice: wide, and for a
phone, where names are short and crowds are drawn below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from topologies.cartography import (
    TURNS,
    Floats,
    Window,
    crowds,
    land_rings,
    link_arcs,
    window_around,
    window_of,
)
from topologies.labels import Labels, spots_around
from topologies.model import Direction, Site, Topology
from topologies.picture import INSET_SIZE, MOST_NAMED_SITES, STYLE, emptiest_corner

UNITS_PER_INCH = 72
LAND_STEPS_PER_DEGREE = 100
POINTS_OF_ARC, POINTS_OF_ARC_LARGE = 25, 11
KEEP_RIGHT = 3.2
INSET_MARGIN = 0.30


@dataclass(frozen=True)
class Strand:
    """One direction of a link, drawn on its right; a seam may leave several pieces."""

    direction: str
    path: str


@dataclass(frozen=True)
class Dot:
    """A city."""

    code: str
    city: str
    x: float
    y: float


@dataclass(frozen=True)
class Label:
    """A city's name and where it stands; `anchor` is SVG's text-anchor."""

    code: str
    city: str
    x: float
    y: float
    anchor: str


@dataclass(frozen=True)
class Panel:
    """A map, or a close-up of a part of it, in units of its own from its left top corner.

    Attributes:
        x: place of the left side in the map around it.
        y: place of the top in the map around it.
        width: extent.
        height: extent.
        land: transforms that put the outline of the continents here, one for each turn.
        roads: the middle of every link.
        strands: every direction.
        dots: every city.
        labels: the names of cities that are written here.
    """

    x: float
    y: float
    width: float
    height: float
    land: tuple[str, ...]
    roads: tuple[str, ...]
    strands: tuple[Strand, ...]
    dots: tuple[Dot, ...]
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class WorldMap:
    """A map with its close-ups, and what they show framed on it.

    Attributes:
        panel: the map.
        insets: close-ups inside of it.
        below: close-ups for which it has no room.
        frames: x, y, width, height of what each close-up shows.
        leads: lines from a frame to its inset: x1, y1, x2, y2.
    """

    panel: Panel
    insets: tuple[Panel, ...]
    below: tuple[Panel, ...]
    frames: tuple[tuple[float, float, float, float], ...]
    leads: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class Style:
    """How a map is laid out.

    Attributes:
        width: of the map, in units of the drawing.
        text_size: of labels.
        dot_radius: of the largest disc.
        with_cities: write city names and not codes alone.
        insets_inside: draw crowds in a corner of the map and not below.
    """

    width: float
    text_size: float
    dot_radius: float
    with_cities: bool
    insets_inside: bool


WIDE = Style(1000, 12.5, 10, with_cities=True, insets_inside=True)
PHONE = Style(400, 11.5, 8, with_cities=False, insets_inside=False)


@dataclass(frozen=True)
class View:
    """From degrees to the units of a drawing, whose y goes down."""

    window: Window
    scale: float

    def points(self, degrees: Floats) -> Floats:
        """Return the places of points given in degrees of the map."""
        left_top = np.array([self.window.left, self.window.top])
        return np.asarray((degrees - left_top) * [self.scale, -self.scale])

    def place(self, site: Site) -> Floats:
        """Return where a city is."""
        return np.asarray(self.points(self.window.place(site)[None, :])[0])


def land_path(windows: Sequence[Window]) -> str:
    """Return the outline of what any of the windows shows, in hundredths of a degree, y down."""
    seen = [
        ring
        for ring in land_rings()
        if any(w.shows(ring + np.array([turn, 0.0])) for w in windows for turn in TURNS)
    ]
    return "".join(_ring_path(np.round(ring * [1, -1] * LAND_STEPS_PER_DEGREE)) for ring in seen)


def _ring_path(steps: Floats) -> str:
    """Return a closed path of whole-number steps, each relative to the last: short text."""
    first, *_ = steps.astype(int).tolist()
    moves = np.diff(steps.astype(int), axis=0)
    moves = moves[np.any(moves != 0, axis=1)]
    pairs = "".join(f"{x}{y:+d}" if x < 0 else f" {x}{y:+d}" for x, y in moves.tolist())
    return f"M{first[0]} {first[1]}l{pairs.strip()}z"


def world_map(topology: Topology, style: Style) -> WorldMap:
    """Lay a network out on its map."""
    window = window_of(topology)
    view = View(window, style.width / window.width)
    groups = [] if len(topology.sites) > MOST_NAMED_SITES else crowds(topology, window)
    with mpl.rc_context(STYLE):
        labels = _labels_on(view, topology, style)
        corners = [
            _inset_place(labels, view, [topology.site(s.code) for s in group])
            for group in groups
            if style.insets_inside
        ]
        crowded = {site.code for group in groups for site in group}
        named = [site for site in topology.sites if site.code not in crowded]
        panel = _panel(view, topology, style, _written(labels, view, named, style))
        close_ups = [_close_up(topology, view, style, group) for group in groups]
    placed = [_moved(one, x, y) for one, (x, y) in zip(close_ups, corners, strict=False)]
    frames = tuple(_frame(view, group) for group in groups)
    leads = [lead for f, p in zip(frames, placed, strict=False) for lead in _leads(f, p)]
    below = () if style.insets_inside else tuple(close_ups)
    return WorldMap(panel, tuple(placed), below, frames, tuple(leads))


def windows_of(topology: Topology) -> list[Window]:
    """Return every window that the maps of a network show."""
    return [window_of(topology)]


def _labels_on(view: View, topology: Topology, style: Style) -> Labels:
    """Return what places labels on a drawing of this size: one unit is one of its pixels."""
    window = view.window
    size = (window.width * view.scale, window.height * view.scale)
    figure = Figure(
        figsize=(size[0] / UNITS_PER_INCH, size[1] / UNITS_PER_INCH), dpi=UNITS_PER_INCH
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(window.left, window.right), ylim=(window.bottom, window.top))
    labels = Labels(axes, canvas)
    for link in topology.links:
        for line in link_arcs(link, topology, window):
            labels.keep_off_line(window.inside(line), link)
    for site in topology.sites:
        centre = axes.transData.transform(window.place(site))
        reach = style.dot_radius
        labels.keep_off_box(Bbox.from_extents(*(centre - reach), *(centre + reach)))
    return labels


def _written(labels: Labels, view: View, sites: Sequence[Site], style: Style) -> tuple[Label, ...]:
    """Place the names of cities; none where there are too many."""
    if len(sites) > MOST_NAMED_SITES:
        return ()
    return tuple(_label(labels, view, site, style) for site in sites)


def _label(labels: Labels, view: View, site: Site, style: Style) -> Label:
    city = site.city if style.with_cities else ""
    text = f"{site.code} {city}".replace("$", r"\$").strip()
    gap = style.dot_radius + 3
    labels.put(text, spots_around(view.window.place(site), gap), site, size=style.text_size)
    placed = labels.axes.texts[-1]
    dx, dy = placed.get_position()
    x, y = view.place(site)
    lift = {"top": 0.85, "center": 0.35, "bottom": -0.1}[placed.get_verticalalignment()]
    anchor = {"left": "start", "center": "middle", "right": "end"}[placed.get_horizontalalignment()]
    return Label(
        site.code,
        city,
        round(float(x) + float(dx), 1),
        round(float(y) - float(dy) + lift * style.text_size, 1),
        anchor,
    )


def _panel(view: View, topology: Topology, style: Style, labels: tuple[Label, ...]) -> Panel:
    window = view.window
    places = [(site, view.place(site)) for site in topology.sites]
    return Panel(
        x=0.0,
        y=0.0,
        width=round(window.width * view.scale, 1),
        height=round(window.height * view.scale, 1),
        land=_land_transforms(view),
        roads=tuple(_line(line) for lines in _middles(view, topology) for line in lines),
        strands=_strands(view, topology),
        dots=tuple(
            Dot(site.code, site.city, round(float(x), 1), round(float(y), 1))
            for site, (x, y) in places
        ),
        labels=labels,
    )


def _land_transforms(view: View) -> tuple[str, ...]:
    """Return the transforms of `land_path`, for each turn that the window shows some land of."""
    window, scale = view.window, view.scale
    return tuple(
        f"translate({(turn - window.left) * scale:.1f} {window.top * scale:.1f}) "
        f"scale({scale / LAND_STEPS_PER_DEGREE:.5f})"
        for turn in TURNS
        if any(window.shows(ring + np.array([turn, 0.0])) for ring in land_rings())
    )


def _middles(view: View, topology: Topology) -> list[list[Floats]]:
    """Return, for each link, the pieces of its arc in units of the drawing."""
    points = POINTS_OF_ARC if len(topology.links) <= 3 * MOST_NAMED_SITES else POINTS_OF_ARC_LARGE
    return [
        [_thinned(view.points(line), points) for line in link_arcs(link, topology, view.window)]
        for link in topology.links
    ]


def _thinned(line: Floats, points: int) -> Floats:
    return np.asarray(line[np.linspace(0, len(line) - 1, points).round().astype(int)])


def _strands(view: View, topology: Topology) -> tuple[Strand, ...]:
    lines = zip(topology.links, _middles(view, topology), strict=True)
    return tuple(
        Strand(str(direction), "".join(_line(_right_of(piece)) for piece in pieces))
        for link, middles in lines
        for direction, pieces in (
            (Direction(link.a, link.b), middles),
            (Direction(link.b, link.a), [piece[::-1] for piece in middles]),
        )
    )


def _right_of(line: Floats) -> Floats:
    """Return a line moved to the right of its way, on a drawing whose y goes down."""
    along = np.gradient(line, axis=0)
    along /= np.maximum(np.hypot(*along.T), 1e-9)[:, None]
    return np.asarray(line + KEEP_RIGHT * np.column_stack([-along[:, 1], along[:, 0]]))


def _line(points: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())


# --- crowds ---------------------------------------------------------------------------------------


def _inset_place(labels: Labels, view: View, group: Sequence[Site]) -> tuple[float, float]:
    """Return the left top corner of a close-up, in the emptiest part of the map."""
    places = np.array([view.window.place(site) for site in group])
    left, bottom = emptiest_corner(labels, labels.axes, places.mean(axis=0))
    width, height = (view.window.width * view.scale, view.window.height * view.scale)
    box = Bbox.from_bounds(left, bottom, *INSET_SIZE).transformed(labels.axes.transAxes)
    labels.keep_off_box(box)
    return round(left * width, 1), round((1 - bottom - INSET_SIZE[1]) * height, 1)


def _close_up(topology: Topology, around: View, style: Style, group: Sequence[Site]) -> Panel:
    """Return a crowd of cities once more, larger."""
    places = np.array([around.window.place(site) for site in group])
    outer = around.window
    width = outer.width * around.scale * (INSET_SIZE[0] if style.insets_inside else 1.0)
    aspect = INSET_SIZE[0] * outer.width / (INSET_SIZE[1] * outer.height)
    window = window_around(list(places[:, 0]), list(places[:, 1]), INSET_MARGIN, aspect)
    view = View(window, width / window.width)
    labels = _labels_on(view, topology, style)
    return _panel(view, topology, style, _written(labels, view, group, style))


def _moved(panel: Panel, x: float, y: float) -> Panel:
    return Panel(**{**panel.__dict__, "x": x, "y": y})


def _frame(view: View, group: Sequence[Site]) -> tuple[float, float, float, float]:
    """Return x, y, width and height of the part of the map that a close-up shows."""
    places = np.array([view.place(site) for site in group])
    reach = 2.2 * view.scale
    low, high = places.min(axis=0) - reach, places.max(axis=0) + reach
    x, y, width, height = np.round([*low, *(high - low)], 1).tolist()
    return x, y, width, height


def _leads(
    frame: tuple[float, float, float, float], inset: Panel
) -> list[tuple[float, float, float, float]]:
    """Return the lines that join the corners of a frame to those of its inset."""
    x, y, width, height = frame
    above = inset.y + inset.height < y
    from_y = y if above else y + height
    to_y = inset.y + inset.height if above else inset.y
    return [(x, from_y, inset.x, to_y), (x + width, from_y, inset.x + inset.width, to_y)]
