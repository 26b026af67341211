"""Draws a plan on a map, one panel a round: cliques in colour, the load of every link by width.

Traffic keeps to the right of its link, so that both directions of a link are told apart; where
cliques share a direction their strands lie side by side. The disc of a city is as large as the load
of its island's access port. The loads are computed again from the plan's cliques and trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from schedules.cost import CostModel, clique_loads
from schedules.network import FloatArray
from schedules.plan import Plan, PlannedRound, Predicted
from schedules.replay import works_of
from topologies.cartography import Window, crowds, link_arcs, window_around, window_of
from topologies.labels import Labels, Spot, spots_along, spots_around
from topologies.model import Link, Site, Topology
from topologies.picture import (
    DOTS_PER_INCH,
    INK,
    INSET_SIZE,
    MOST_NAMED_LINKS,
    MOST_NAMED_SITES,
    MUTED,
    STYLE,
    check_format,
    connect_close_up,
    emptiest_corner,
    prepare_map,
    save,
)

CLIQUE_COLOURS = (
    "#0b7fab", "#d1495b", "#3a8f4d", "#e08a00", "#7a4fa3", "#00897b",
    "#b0417a", "#6b7a1e", "#2f4b9b", "#9a5b2c", "#5c5c8a", "#a8324a",
)  # fmt: skip
IDLE, ROAD = "#ffffff", "#b6c3cd"
MOST_PANELS = 8
PANEL_INCHES = {1: 12.0, 2: 8.6}
TITLE_INCHES, HEADER_INCHES, LEGEND_INCHES, GAP_INCHES = 0.62, 0.68, 0.55, 0.12
WIDEST_POINTS, NARROWEST_POINTS, MEDIAN_POINTS = 8.0, 0.8, 0.9
DISC_POINTS, SMALL_DISC_POINTS = (7.0, 15.0), (3.0, 7.0)
POINTS_PER_INCH = 72
DOT = "   \N{MIDDLE DOT}   "


@dataclass(frozen=True, eq=False)
class RoundLoads:
    """What each clique of a round puts on the network.

    Attributes:
        planned: the round.
        by_clique: (cliques, D) messages of each clique on every direction.
    """

    planned: PlannedRound
    by_clique: FloatArray


@dataclass(frozen=True, eq=False)
class PlanScene:
    """A plan with all that its panels share."""

    plan: Plan
    topology: Topology
    model: CostModel

    @classmethod
    def of(cls, plan: Plan, topology: Topology) -> PlanScene:
        """Put a plan and its network together."""
        return cls(plan, topology, CostModel.of(topology, plan.capabilities.read()))

    @cached_property
    def rounds(self) -> tuple[RoundLoads, ...]:
        """The rounds that are shown, with their loads."""
        return tuple(self._loads(planned) for planned in self.plan.rounds[:MOST_PANELS])

    def _loads(self, planned: PlannedRound) -> RoundLoads:
        works = works_of(self.model.network, planned)
        loads = [clique_loads(self.model, planned.collective, work) for work in works]
        return RoundLoads(planned, np.array(loads))

    @cached_property
    def heaviest(self) -> tuple[float, float]:
        """The largest load of a WAN direction, and of an access port, in any round."""
        totals = np.array([loads.by_clique.sum(axis=0) for loads in self.rounds])
        network = self.model.network
        wan, ports = totals[:, : network.wan_count], totals[:, network.up(0) :]
        ports = ports[:, : 2 * network.size]
        return max(float(wan.max(initial=0.0)), 1e-9), max(float(ports.max(initial=0.0)), 1e-9)

    @cached_property
    def large(self) -> bool:
        """Whether there are too many cities and links for labels and frames."""
        links = len(self.topology.links) > MOST_NAMED_LINKS
        return links or len(self.topology.sites) > MOST_NAMED_SITES

    def width_points(self, messages: float) -> float:
        """Return how wide a strand of so many messages is."""
        return max(NARROWEST_POINTS, WIDEST_POINTS * messages / self.heaviest[0])

    def disc_points(self, messages: float) -> float:
        """Return how large the disc of a city is whose busier access direction carries so many."""
        least, most = SMALL_DISC_POINTS if self.large else DISC_POINTS
        return float(least + (most - least) * np.sqrt(messages / self.heaviest[1]))


def draw_plan(plan: Plan, topology: Topology, path: str | Path) -> None:
    """Write a picture of a plan.

    Raises:
        UserError: for a format other than SVG, PNG or PDF, a file that cannot be written, or a plan
            of another topology.
    """
    check_format(path)
    with mpl.rc_context(STYLE):
        save(plan_picture(plan, topology), path)


def plan_picture(plan: Plan, topology: Topology) -> Figure:
    """Return the figure: a title, a panel for each of the first rounds, and a legend."""
    scene = PlanScene.of(plan, topology)
    columns = 1 if len(scene.rounds) == 1 else 2
    rows = ceil(len(scene.rounds) / columns)
    window = window_of(topology)
    wide = PANEL_INCHES[columns]
    high = wide * window.height / window.width
    width = columns * wide + (columns - 1) * GAP_INCHES
    height = TITLE_INCHES + rows * (HEADER_INCHES + high) + LEGEND_INCHES
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    _title(figure, scene)
    for place, loads in enumerate(scene.rounds):
        row, column = divmod(place, columns)
        left = column * (wide + GAP_INCHES)
        top = height - TITLE_INCHES - row * (HEADER_INCHES + high)
        _header(figure, scene, place, (left, top, wide))
        frame = (left / width, (top - HEADER_INCHES - high) / height, wide / width, high / height)
        _panel(_Panel(scene, loads, figure.add_axes(frame), window), canvas)
    _legend(figure, scene)
    return figure


# --- words around the maps ------------------------------------------------------------------------


def _title(figure: Figure, scene: PlanScene) -> None:
    plan, (width, height) = scene.plan, figure.get_size_inches()
    y = 1 - TITLE_INCHES / 2 / height
    name = figure.text(
        0.18 / width, y, plan.topology, color=INK, size=19, weight="bold", va="center_baseline"
    )
    end = name.get_window_extent().x1 / figure.bbox.width
    proof = "proved optimal" if plan.optimal else f"gap at most {plan.gap_pct:.2g} %"
    facts = [plan.capabilities.read().name, f"objective {plan.objective}"]
    facts += [f"{plan.value:.4g} {plan.unit}", proof]
    if len(plan.rounds) > MOST_PANELS:
        facts.append(f"the {MOST_PANELS} most run of {len(plan.rounds)} rounds")
    figure.text(end + 0.2 / width, y, DOT.join(facts), color=MUTED, size=12, va="center_baseline")


def _header(
    figure: Figure, scene: PlanScene, place: int, at_inches: tuple[float, float, float]
) -> None:
    """Say above a map what its round is, and which colour is which clique."""
    left, top, wide = at_inches
    width, height = figure.get_size_inches()
    planned = scene.rounds[place].planned
    predicted = planned.predicted
    share = f", {planned.share:.0%} of rounds" if len(scene.plan.rounds) > 1 else ""
    facts = [f"{predicted.round_s:.3g} s", _busiest_text(predicted)]
    facts.append(f"{predicted.traversals:.4g} traversals")
    y = (top - 0.17) / height
    figure.text(
        (left + 0.18) / width,
        y,
        f"Round {place + 1}: {planned.collective}{share}",
        color=INK,
        size=12.5,
        weight="bold",
        va="center",
    )
    figure.text(
        (left + wide - 0.18) / width,
        y,
        DOT.join(facts),
        color=MUTED,
        size=10.5,
        ha="right",
        va="center",
    )
    _chips(figure, planned, (left + 0.18, top - 0.47, left + wide - 0.18))


def _busiest_text(predicted: Predicted) -> str:
    messages = f"{predicted.load[predicted.busiest]:.3g}"
    return f"{messages} message{'s' * (messages != '1')} over {predicted.busiest}"


def _chips(figure: Figure, planned: PlannedRound, at_inches: tuple[float, float, float]) -> None:
    """Write the cliques in their colours, as many as fit in a line."""
    left, y, right = at_inches
    width, height = figure.get_size_inches()
    x = left
    for place, clique in enumerate(planned.cliques):
        text = figure.text(
            x / width,
            y / height,
            "\N{BLACK CIRCLE} " + " ".join(clique[:14]) + (" ..." if len(clique) > 14 else ""),
            color=clique_colour(place),
            size=10.5,
            weight="bold",
            va="center",
        )
        x = text.get_window_extent().x1 / DOTS_PER_INCH + 0.25
        hidden = len(planned.cliques) - place
        if x > right - 0.9 and hidden > 1:
            text.set(text=f"and {hidden} cliques more", color=MUTED)
            return


def clique_colour(place: int) -> str:
    """Return the colour of a clique by its place in the round."""
    return CLIQUE_COLOURS[place % len(CLIQUE_COLOURS)]


def _legend(figure: Figure, scene: PlanScene) -> None:
    """Explain widths and discs below the maps, with their units."""
    width, height = figure.get_size_inches()
    y = LEGEND_INCHES / 2 / height
    x = 0.18
    wan, port = scene.heaviest
    for messages in (wan / 4, wan):
        end = x + 0.45
        figure.add_artist(
            mpl.lines.Line2D(
                [x / width, end / width],
                [y, y],
                color=MUTED,
                linewidth=scene.width_points(messages),
                solid_capstyle="butt",
            )
        )
        x = _legend_text(figure, end + 0.08, y, f"{messages:.3g}") + 0.22
    x = _legend_text(figure, x - 0.1, y, _of_messages(scene, "over a link direction")) + 0.5
    for messages in (port / 4, port):
        figure.add_artist(
            mpl.lines.Line2D(
                [(x + 0.1) / width],
                [y],
                marker="o",
                color=MUTED,
                markersize=scene.disc_points(messages),
                markeredgecolor="white",
                linestyle="none",
            )
        )
        x = _legend_text(figure, x + 0.26, y, f"{messages:.3g}") + 0.18
    x = _legend_text(figure, x - 0.06, y, "through an access port") + 0.5
    _legend_text(figure, x, y, "traffic keeps right; white: idle")


def _of_messages(scene: PlanScene, where: str) -> str:
    return f"messages of {scene.plan.message_bytes / 1e6:.4g} MB {where}"


def _legend_text(figure: Figure, x_inches: float, y: float, text: str) -> float:
    """Write a text and return where it ends, in inches."""
    width = figure.get_size_inches()[0]
    written = figure.text(x_inches / width, y, text, color=INK, size=10.5, va="center")
    return float(written.get_window_extent().x1 / DOTS_PER_INCH)


# --- a panel --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Panel:
    """A map of a round, or a close-up of a part of it."""

    scene: PlanScene
    loads: RoundLoads
    axes: Axes
    window: Window

    @property
    def degrees_per_point(self) -> float:
        """How many degrees of the map a typographic point is."""
        width_inches = self.axes.get_window_extent().width / DOTS_PER_INCH
        return self.window.width / (width_inches * POINTS_PER_INCH)


def _panel(panel: _Panel, canvas: FigureCanvasAgg) -> None:
    scene, topology = panel.scene, panel.scene.topology
    labels = Labels(panel.axes, canvas)
    prepare_map(panel.axes, panel.window)
    _draw_network(panel, labels)
    groups = [] if scene.large else crowds(topology, panel.window)
    for group in groups:
        _close_up(panel, labels, group)
    if not scene.large:
        inner = {link for group in groups for link in _links_within(topology, group)}
        crowded = {site.code for group in groups for site in group}
        named = [site for site in topology.sites if site.code not in crowded]
        _draw_labels(panel, labels, named, [x for x in topology.links if x not in inner])


def _links_within(topology: Topology, group: Sequence[Site]) -> list[Link]:
    codes = {site.code for site in group}
    return [link for link in topology.links if {link.a, link.b} <= codes]


def _close_up(panel: _Panel, labels: Labels, group: Sequence[Site]) -> None:
    """Draw a crowd of cities once more, larger, in the emptiest part of the panel."""
    places = np.array([panel.window.place(site) for site in group])
    width, height = INSET_SIZE
    left, bottom = emptiest_corner(labels, panel.axes, places.mean(axis=0))
    inset = panel.axes.inset_axes((left, bottom, width, height), zorder=8)
    aspect = width * panel.window.width / (height * panel.window.height)
    window = window_around(list(places[:, 0]), list(places[:, 1]), margin=0.30, aspect=aspect)
    prepare_map(inset, window)
    inner = Labels(inset, labels.canvas)
    close_up = _Panel(panel.scene, panel.loads, inset, window)
    _draw_network(close_up, inner)
    _draw_labels(close_up, inner, group, _links_within(panel.scene.topology, group))
    connect_close_up(panel.axes, inset, places)
    labels.keep_off_box(inset.get_window_extent())


def _draw_network(panel: _Panel, labels: Labels) -> None:
    for link in panel.scene.topology.links:
        for line in link_arcs(link, panel.scene.topology, panel.window):
            panel.axes.plot(*line.T, color=ROAD, linewidth=MEDIAN_POINTS, zorder=2)
            _draw_strands(panel, line, (link.a, link.b))
            _draw_strands(panel, line[::-1], (link.b, link.a))
            labels.keep_off_line(panel.window.inside(line), link)
    for number, site in enumerate(panel.scene.topology.sites):
        _draw_city(panel, labels, number, site)


def _draw_strands(panel: _Panel, line: FloatArray, ends: tuple[str, str]) -> None:
    """Draw what each clique sends along a line, side by side on its right."""
    network = panel.scene.model.network
    source, target = (network.codes.index(code) for code in ends)
    column = int(network.wan_column[source, target])
    reach = MEDIAN_POINTS / 2
    for place, messages in enumerate(panel.loads.by_clique[:, column].tolist()):
        if messages <= 0:
            continue
        wide = panel.scene.width_points(messages)
        offset = (reach + wide / 2) * panel.degrees_per_point
        panel.axes.plot(
            *_right_of(line, offset).T,
            color=clique_colour(place),
            linewidth=wide,
            solid_capstyle="butt",
            zorder=3,
        )
        reach += wide


def _right_of(line: FloatArray, offset: float) -> FloatArray:
    """Return the line moved to the right of its way by so many degrees."""
    along = np.gradient(line, axis=0)
    along /= np.maximum(np.hypot(*along.T), 1e-12)[:, None]
    return np.asarray(line + offset * np.column_stack([along[:, 1], -along[:, 0]]))


def _draw_city(panel: _Panel, labels: Labels, number: int, site: Site) -> None:
    """Draw a disc in the colour of the city's clique, as large as its access port's load."""
    network = panel.scene.model.network
    total = panel.loads.by_clique.sum(axis=0)
    busier = max(float(total[network.up(number)]), float(total[network.down(number)]))
    size = panel.scene.disc_points(busier)
    x, y = panel.window.place(site)
    cliques = panel.loads.planned.cliques
    of_clique = [place for place, clique in enumerate(cliques) if site.code in clique]
    colour = clique_colour(of_clique[0]) if of_clique else IDLE
    edge = "white" if of_clique else MUTED
    panel.axes.plot(
        x,
        y,
        "o",
        markersize=size,
        color=colour,
        markeredgecolor=edge,
        markeredgewidth=1.4,
        zorder=5,
    )
    centre = panel.axes.transData.transform((x, y))
    reach = (size / 2 + 2) * DOTS_PER_INCH / POINTS_PER_INCH
    labels.keep_off_box(Bbox.from_extents(*(centre - reach), *(centre + reach)))


def _draw_labels(
    panel: _Panel, labels: Labels, sites: Sequence[Site], links: Sequence[Link]
) -> None:
    halo = [withStroke(linewidth=3, foreground="white")]
    for site in sites:
        labels.put(
            site.code,
            spots_around(panel.window.place(site), 11),
            site,
            color=INK,
            size=10.5,
            weight="bold",
            path_effects=halo,
            zorder=7,
        )
    for link in links:
        _label_busiest(panel, labels, link)
        _label_cut(panel, labels, link)


def _label_busiest(panel: _Panel, labels: Labels, link: Link) -> None:
    """Write the load beside the link that sets the round's time."""
    predicted = panel.loads.planned.predicted
    if predicted.busiest not in (f"{link.a}>{link.b}", f"{link.b}>{link.a}"):
        return
    lines = link_arcs(link, panel.scene.topology, panel.window)
    longest = max((panel.window.inside(line) for line in lines), key=len)
    box: Any = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": MUTED}
    labels.put(
        f"{predicted.busiest} {predicted.load[predicted.busiest]:.3g}",
        spots_along(longest, 17),
        link,
        color=INK,
        size=9.5,
        weight="bold",
        bbox=box | {"linewidth": 0.9},
        zorder=6,
    )


def _label_cut(panel: _Panel, labels: Labels, link: Link) -> None:
    """Say at the map's edges where a link goes on that the seam cuts in two."""
    for line in link_arcs(link, panel.scene.topology, panel.window):
        seen = panel.window.inside(line)
        for far, end, last in ((link.a, line[0], seen[:1]), (link.b, line[-1], seen[-1:])):
            outside = not panel.window.left <= end[0] <= panel.window.right
            if outside and len(last):
                right = bool(end[0] > panel.window.right)
                side: Any = "right" if right else "left"
                dx = -4 if right else 4
                spots = [Spot(last[0], dx, 9, side, "bottom"), Spot(last[0], dx, -9, side, "top")]
                labels.put(f"to {far}", spots, link, color=MUTED, size=9.5, zorder=7)
