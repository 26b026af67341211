"""Draws a network on a map of the world: cities, links and the one-way delay of each.

    python -m topologies.picture nine_city docs/nine_city.svg

The format follows the file's name: `.svg`, `.png` or `.pdf`. Colour runs from the shortest delay to
the longest; a frame shows larger what is crowded on the map. The same topology always gives the
same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke
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
from topologies.errors import AtollError, UserError
from topologies.files import load
from topologies.labels import Labels, Spot, shared_areas, spots_along, spots_around
from topologies.model import Link, Site, Topology

OCEAN, LAND, SHORE, FRAME = "#e9f0f5", "#fbfaf7", "#c9d4da", "#8fa3b1"
INK, MUTED = "#14304a", "#5b7083"
DELAY_COLOURS = LinearSegmentedColormap.from_list(
    "delay", ["#0b9b86", "#2b72b8", "#6a45a8", "#c02f74"]
)
STYLE: dict[Any, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "topology",
    "font.family": "DejaVu Sans",
}
WIDTH_INCHES, DOTS_PER_INCH = 12.0, 150
TITLE_INCHES = 0.62
MOST_NAMED_SITES, MOST_NAMED_LINKS = 40, 60
INSET_SIZE = (0.25, 0.44)  # of the map's width and height
FORMATS = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Scene:
    """What one set of axes shows: which sites and links get their labels there."""

    topology: Topology
    window: Window
    named_sites: tuple[Site, ...]
    named_links: tuple[Link, ...]
    colours: dict[Link, str]
    with_cities: bool = True


def draw(topology: Topology, path: str | Path) -> None:
    """Write a picture of the network; raises UserError for a format other than SVG, PNG, PDF."""
    check_format(path)
    with mpl.rc_context(STYLE):
        save(picture(topology), path)


def check_format(path: str | Path) -> None:
    """Raise UserError for a picture's name that does not end in one of `FORMATS`."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"{path}: no such picture format; end the name in {', '.join(FORMATS)}")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure, the same bytes each time; raises UserError where it cannot be written."""
    dates = {"Date": None} if Path(path).suffix.lower() == ".svg" else {}
    try:
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=dates)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def picture(topology: Topology) -> Figure:
    """Return the figure: the map, its title and a frame for each crowd.

    A network too large for that gets no frames, codes without city names and no delays.
    """
    window = window_of(topology)
    large = len(topology.sites) > MOST_NAMED_SITES or len(topology.links) > MOST_NAMED_LINKS
    groups = [] if large else crowds(topology, window)
    scene = _whole_scene(topology, window, groups, large)
    map_inches = WIDTH_INCHES * window.height / window.width
    figure = Figure(figsize=(WIDTH_INCHES, map_inches + TITLE_INCHES), dpi=DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, map_inches / (map_inches + TITLE_INCHES)))
    _title(figure, topology, map_inches)
    labels = Labels(axes, canvas)
    prepare_map(axes, window)
    _draw_lines(axes, scene, labels)
    for group in groups:
        _inset(axes, labels, scene, group)
    _draw_labels(labels, scene)
    return figure


def _whole_scene(
    topology: Topology, window: Window, groups: Sequence[Sequence[Site]], large: bool
) -> Scene:
    """Return the scene of the map itself: what is labelled in a frame is not labelled there."""
    crowded = {site.code for group in groups for site in group}
    inner = {link for group in groups for link in _links_within(topology, group)}
    named_links = () if large else tuple(x for x in topology.links if x not in inner)
    named_sites = tuple(site for site in topology.sites if site.code not in crowded)
    colours = delay_colours(topology)
    return Scene(topology, window, named_sites, named_links, colours, with_cities=not large)


def _links_within(topology: Topology, group: Sequence[Site]) -> tuple[Link, ...]:
    codes = {site.code for site in group}
    return tuple(link for link in topology.links if {link.a, link.b} <= codes)


def delay_colours(topology: Topology) -> dict[Link, str]:
    """Return a colour for each link, from no delay to the longest, on a square-root scale."""
    delays = {link: link.forward.one_way_delay_ms for link in topology.links}
    scale = PowerNorm(0.5, 0, max(*delays.values(), 0.001))
    return {link: to_hex(DELAY_COLOURS(float(scale(delay)))) for link, delay in delays.items()}


def delay_text(link: Link) -> str:
    """Return a link's one-way delay for its label; both where the directions differ."""
    delays = [_decimal(spec.one_way_delay_ms) for spec in (link.forward, link.backward)]
    return f"{' | '.join(dict.fromkeys(delays))} ms"


def rate_text(topology: Topology) -> str:
    """Return the links' rates, or their range: `20 to 155 Mbit/s`."""
    rates = [spec.rate_mbps for spec in topology.wan_directions().values()]
    unit, name = (1000, "Gbit/s") if min(rates) >= 1000 else (1, "Mbit/s")
    ends = dict.fromkeys(_decimal(rate / unit) for rate in (min(rates), max(rates)))
    return f"{' to '.join(ends)} {name}"


def _decimal(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _title(figure: Figure, topology: Topology, map_inches: float) -> None:
    bottom = map_inches / (map_inches + TITLE_INCHES)
    y = bottom + (1 - bottom) / 2
    name = figure.text(
        0.016, y, topology.name, color=INK, size=19, weight="bold", va="center_baseline"
    )
    end = name.get_window_extent().x1 / figure.bbox.width
    facts = (
        f"{len(topology.sites)} cities",
        f"{len(topology.links)} links",
        rate_text(topology),
        "one-way delays",
    )
    figure.text(
        end + 0.016,
        y,
        "   \N{MIDDLE DOT}   ".join(facts),
        color=MUTED,
        size=12,
        va="center_baseline",
    )


def prepare_map(axes: Axes, window: Window) -> None:
    """Set the axes to the window and lay down sea and land."""
    axes.set(
        xlim=(window.left, window.right), ylim=(window.bottom, window.top), xticks=[], yticks=[]
    )
    axes.set_facecolor(OCEAN)
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=1.0)
    for turn in TURNS:
        rings = [ring + np.array([turn, 0.0]) for ring in land_rings()]
        seen = [Outline(ring, closed=True) for ring in rings if window.shows(ring)]
        if seen:
            land = Outline.make_compound_path(*seen)
            axes.add_patch(PathPatch(land, facecolor=LAND, edgecolor=SHORE, linewidth=0.6))


def _draw_lines(axes: Axes, scene: Scene, labels: Labels) -> None:
    """Draw every link and city, and tell the labels to keep off them."""
    for link in scene.topology.links:
        for line in link_arcs(link, scene.topology, scene.window):
            axes.plot(
                *line.T, color=scene.colours[link], linewidth=2.2, solid_capstyle="round", zorder=3
            )
            labels.keep_off_line(scene.window.inside(line), link)
    for site in scene.topology.sites:
        x, y = scene.window.place(site)
        axes.plot(
            x,
            y,
            "o",
            markersize=8,
            color=INK,
            markeredgecolor="white",
            markeredgewidth=1.4,
            zorder=5,
        )
        centre = axes.transData.transform((x, y))
        labels.keep_off_box(Bbox.from_extents(*(centre - 10), *(centre + 10)))


def _draw_labels(labels: Labels, scene: Scene) -> None:
    halo = [withStroke(linewidth=3, foreground="white")]
    for site in scene.named_sites:
        labels.put(
            f"$\\bf{{{site.code}}}$ {_plain(site.city)}" if scene.with_cities else site.code,
            spots_around(scene.window.place(site), 9),
            site,
            color=INK,
            size=10.5,
            path_effects=halo,
            zorder=7,
        )
    for link in sorted(scene.named_links, key=lambda link: _length(scene, link)):
        _label_link(labels, scene, link)
        _label_cut(labels, scene, link)


def _length(scene: Scene, link: Link) -> float:
    """Return how long a link is on the map: the short ones, with the least room, come first."""
    line = link_arcs(link, scene.topology, scene.window)[0]
    return float(np.hypot(*(line[-1] - line[0])))


def _plain(city: str) -> str:
    """Return a city's name with matplotlib's own mark for mathematics made harmless."""
    return city.replace("$", r"\$")


def _label_link(labels: Labels, scene: Scene, link: Link) -> None:
    pieces = [scene.window.inside(line) for line in link_arcs(link, scene.topology, scene.window)]
    longest = max(pieces, key=len)
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": scene.colours[link]}
    labels.put(
        delay_text(link),
        spots_along(longest, 17),
        link,
        color=scene.colours[link],
        size=9.5,
        weight="bold",
        bbox=box | {"linewidth": 0.9},
        zorder=6,
    )


def _label_cut(labels: Labels, scene: Scene, link: Link) -> None:
    """Say at the map's edges where a link goes on that the seam cuts in two."""
    for line in link_arcs(link, scene.topology, scene.window):
        seen = scene.window.inside(line)
        for far, end, last in ((link.a, line[0], seen[0]), (link.b, line[-1], seen[-1])):
            if not scene.window.left <= end[0] <= scene.window.right:
                right = end[0] > scene.window.right
                text = (
                    f"to {far} \N{RIGHTWARDS ARROW}" if right else f"\N{LEFTWARDS ARROW} to {far}"
                )
                side: Any = "right" if right else "left"
                dx = -4 if right else 4
                spots = [Spot(last, dx, 7, side, "bottom"), Spot(last, dx, -7, side, "top")]
                labels.put(text, spots, link, color=MUTED, size=9.5, zorder=7)


# --- crowds ---------------------------------------------------------------------------------------


def _inset(axes: Axes, labels: Labels, scene: Scene, group: Sequence[Site]) -> None:
    """Draw a crowd of cities once more, larger, in the emptiest part of the map."""
    places = np.array([scene.window.place(site) for site in group])
    left, bottom = emptiest_corner(labels, axes, places.mean(axis=0))
    width, height = INSET_SIZE
    inset = axes.inset_axes((left, bottom, width, height), zorder=8)
    aspect = width * scene.window.width / (height * scene.window.height)
    window = window_around(list(places[:, 0]), list(places[:, 1]), margin=0.30, aspect=aspect)
    close_up = Scene(
        scene.topology, window, tuple(group), _links_within(scene.topology, group), scene.colours
    )
    prepare_map(inset, window)
    inner = Labels(inset, labels.canvas)
    _draw_lines(inset, close_up, inner)
    _draw_labels(inner, close_up)
    connect_close_up(axes, inset, places)
    labels.keep_off_box(inset.get_window_extent())


def emptiest_corner(labels: Labels, axes: Axes, crowd: Floats) -> tuple[float, float]:
    """Return the left bottom corner, in parts of the axes, where an inset covers least."""
    width, height = INSET_SIZE
    corners = list(
        product(np.linspace(0.012, 0.988 - width, 40), np.linspace(0.025, 0.975 - height, 12))
    )
    centre = axes.transAxes.inverted().transform(axes.transData.transform(crowd))

    points = np.vstack([line for _, line in labels.lines])
    boxes = np.array([box.extents for box in labels.boxes])

    def cost(corner: tuple[float, float]) -> float:
        x, y = corner
        box = Bbox.from_bounds(x, y, width, height).padded(0.02).transformed(axes.transAxes)
        areas = shared_areas(box, boxes)
        hidden = 8 * np.count_nonzero(areas) + 1000 * areas.sum() / (box.width * box.height)
        away = np.hypot(x + width / 2 - centre[0], y + height / 2 - centre[1])
        return float(box.count_contains(points) + hidden + 4 * away)

    return min(corners, key=cost)


def connect_close_up(axes: Axes, inset: Axes, places: Floats) -> None:
    """Frame the crowd on the map and join the frame's corners to the inset's."""
    low, high = places.min(axis=0) - 2.2, places.max(axis=0) + 2.2
    frame = Rectangle(
        (low[0], low[1]), *(high - low), fill=False, edgecolor=MUTED, linewidth=1.1, zorder=6
    )
    axes.add_patch(frame)
    above = inset.get_window_extent().y0 > axes.transData.transform(high)[1]
    y_map, y_inset = (high[1], 0) if above else (low[1], 1)
    for x_map, x_inset in ((low[0], 0), (high[0], 1)):
        axes.add_artist(
            ConnectionPatch(
                (x_map, y_map),
                (x_inset, y_inset),
                axes.transData,
                inset.transAxes,
                color=MUTED,
                linewidth=0.8,
                alpha=0.7,
                zorder=6,
            )
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the topology named on the command line."""
    parser = argparse.ArgumentParser(prog="topologies.picture", description="Draw a topology.")
    parser.add_argument("topology", help="a bundled name or a topology file")
    parser.add_argument("path", help="the picture to write: .svg, .png or .pdf")
    options = parser.parse_args(arguments)
    try:
        draw(load(options.topology), options.path)
    except AtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
