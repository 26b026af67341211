"""The timeline of the workers: what each did, and what its access port carried, over the run.

Each worker has two lanes. The upper one is its phases, from its own rows. The lower one is what its
access port sent (up) and received (down), from the counters of `links.csv`, as a share of its rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as Outline

from testbed.report.formats import rate
from testbed.report.palette import LIGHT
from testbed.report.phases import COMPUTE, EXCHANGE, PHASE_KINDS, WAIT, Phase, shares
from testbed.report.plotting import new_plot
from testbed.report.run_plots import Plot
from testbed.report.traffic import Floats, edges_s, rates_mbps
from testbed.report.view import RunView
from topologies.model import Direction

FAULT, FAULT_OVER = "fault", "fault_over"
MOST_WORKERS = 24
MOST_PHASES = 6000
STRETCHES, STRETCHES_ON_PHONE = 240, 110
PHASE_TOP, PHASE_HEIGHT = 0.10, 0.30
TRAFFIC_MIDDLE, TRAFFIC_HEIGHT = 0.68, 0.22


def timeline_plot(view: RunView) -> Plot | None:
    """Return the timeline; None where no worker finished anything."""
    phases = view.phases[:MOST_PHASES]
    if not phases:
        return None
    sites = shown_sites(phases)
    fullest = fullest_mbps(view, sites)
    caption = (
        "Upper lane: what the worker did. Lower lane: what its access port sent (up) and received "
        f"(down); full height is {rate(fullest)}, the most that any of them carried. "
    )
    if len(sites) < len({phase.site for phase in phases}):
        caption += f"The {len(sites)} islands that computed longest are shown. "
    caption += "trace.json has every phase and counter for ui.perfetto.dev."
    return Plot(
        "timeline",
        "Compute, wait, send and receive",
        caption,
        ("workers/", "links.csv", "events.jsonl"),
        _timeline(view, phases, sites, (12.6, 0.9 + 0.50 * len(sites)), STRETCHES),
        _timeline(view, phases, sites, (5.4, 0.9 + 0.46 * len(sites)), STRETCHES_ON_PHONE),
    )


def shown_sites(phases: Sequence[Phase]) -> list[str]:
    """Return the sites to show: all, or of many those that computed longest; sorted."""
    spent = shares(phases)
    longest = sorted(spent, key=lambda site: (-spent[site][COMPUTE], site))[:MOST_WORKERS]
    return sorted(longest)


def end_s(view: RunView) -> float:
    """Return the UNIX time at which the last round or phase ended."""
    ends = [phase.end_s for phase in view.phases] + [one.end for one in view.rounds[-1:]]
    return max(ends)


def fullest_mbps(view: RunView, sites: Sequence[str]) -> float:
    """Return the highest rate of the sites' access ports over a stretch of the wide timeline."""
    edges = edges_s(view.start_s, end_s(view), STRETCHES)
    ports = [port for site in sites for port in (Direction.up(site), Direction.down(site))]
    links = view.material.links
    rates = [float(rates_mbps(links[port], edges).max()) for port in ports if port in links]
    return max([*rates, 1e-9])


def _timeline(
    view: RunView,
    phases: Sequence[Phase],
    sites: Sequence[str],
    size_inches: tuple[float, float],
    stretches: int,
) -> Figure:
    figure, axes = new_plot(size_inches)
    places = {site: place for place, site in enumerate(sites)}
    start, end = view.start_s, end_s(view)
    for kind in PHASE_KINDS:
        _bars(axes, [p for p in phases if p.kind == kind and p.site in places], places, start)
    edges = edges_s(start, end, stretches)
    fullest = fullest_mbps(view, sites)
    for site, place in places.items():
        _traffic(axes, view, site, place, edges, fullest)
    _mark_rounds(axes, view, start)
    faults = fault_spans(view.material.run.events, end)
    for begin, over in faults:
        axes.axvspan(begin - start, over - start, color=LIGHT["bad"], alpha=0.13, lw=0, zorder=0)
    axes.set(xlim=(0, end - start), ylim=(len(sites), 0), xlabel="seconds")
    axes.set_yticks([place + 0.5 for place in places.values()], list(sites), weight="bold")
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    _legend(axes, with_faults=bool(faults))
    return figure


def _bars(axes: Axes, phases: Sequence[Phase], places: Mapping[str, int], start: float) -> None:
    """Draw all phases of one kind as one path, which keeps the drawing small."""
    if not phases:
        return
    corners = np.empty((len(phases), 5, 2))
    for i, phase in enumerate(phases):
        top = places[phase.site] + PHASE_TOP
        left, right, bottom = phase.start_s - start, phase.end_s - start, top + PHASE_HEIGHT
        corners[i] = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    codes = np.tile(
        [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY],
        len(phases),
    )
    outline = Outline(corners.reshape(-1, 2), codes)
    axes.add_patch(PathPatch(outline, facecolor=LIGHT[phases[0].kind], linewidth=0))


def _traffic(
    axes: Axes, view: RunView, site: str, place: int, edges: Floats, fullest: float
) -> None:
    start = view.start_s
    middle = place + TRAFFIC_MIDDLE
    axes.axhline(middle, color=LIGHT["faint"], linewidth=0.7, zorder=0)
    for direction, sign, colour in (
        (Direction.up(site), -1, LIGHT["send"]),
        (Direction.down(site), 1, LIGHT["receive"]),
    ):
        series = view.material.links.get(direction)
        if series is None:
            continue
        rates = rates_mbps(series, edges)
        used = np.asarray(np.round(np.minimum(1.0, rates / fullest), 2), dtype=np.float64)
        steps = _steps(edges - start, np.asarray(middle + sign * TRAFFIC_HEIGHT * used), middle)
        axes.add_patch(PathPatch(Outline(steps), facecolor=colour, linewidth=0))


def _steps(edges: Floats, heights: Floats, base: float) -> Floats:
    """Return the outline of a stepped area, with a corner only where the height changes."""
    levels = np.concatenate([[base], heights, [base]])
    changes = np.flatnonzero(np.diff(levels))
    x = np.repeat(edges[changes], 2)
    y = np.column_stack([levels[changes], levels[changes + 1]]).ravel()
    return np.column_stack([x, y]) if len(x) else np.array([[edges[0], base]])


def _mark_rounds(axes: Axes, view: RunView, start: float) -> None:
    """Mark where rounds begin, and number them above as far as there is room."""
    every = max(1, -(-len(view.rounds) // 20))
    for one in view.rounds[::every]:
        axes.axvline(one.start - start, color=LIGHT["faint"], linewidth=0.9, zorder=0)


def fault_spans(events: Sequence[Mapping[str, Any]], end: float) -> list[tuple[float, float]]:
    """Return the UNIX times from when to when each fault was under way, the end if it stayed."""
    told = [({k: v for k, v in row.items() if k not in ("time", "event")}, row) for row in events]
    spans = []
    for what, row in told:
        if row.get("event") == FAULT:
            ends = [
                other["time"]
                for same, other in told
                if other.get("event") == FAULT_OVER and same == what and other["time"] > row["time"]
            ]
            spans.append((float(row["time"]), float(min(ends, default=end))))
    return spans


def _legend(axes: Axes, with_faults: bool) -> None:
    kinds = [(COMPUTE, COMPUTE), (WAIT, WAIT), (EXCHANGE, EXCHANGE)]
    named = [*kinds, ("send", "sent"), ("receive", "received")]
    handles = [Patch(facecolor=LIGHT[colour], label=label) for colour, label in named]
    if with_faults:
        handles.append(Patch(facecolor=LIGHT["bad"], alpha=0.25, label="fault"))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=6,
        borderaxespad=0.2,
        handlelength=0.9,
        handleheight=0.9,
        columnspacing=1.0,
        handletextpad=0.5,
    )
