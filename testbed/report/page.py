"""From a run to one page of HTML that needs nothing else: style, script, drawings and data inside.

Templates escape everything (jinja2's autoescape); only drawings that matplotlib wrote and this
package's own style and script go in as they are. The page's own policy forbids every request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from testbed.report.frames import LARGE_DIRECTIONS, Frames, level, width
from testbed.report.headline import description, facts, title, verdict
from testbed.report.material import SHARED
from testbed.report.palette import variables
from testbed.report.plotting import for_page
from testbed.report.run_plots import Plot
from testbed.report.tables import (
    background_table,
    calibration_table,
    event_table,
    link_table,
    members_text,
    prediction_table,
    round_table,
    round_trip_table,
    when,
    witness_table,
)
from testbed.report.variants import REPORT
from testbed.report.view import RunView
from testbed.report.world_map import PHONE, WIDE, WorldMap, land_path, windows_of, world_map
from topologies.model import Topology

MOST_THUMBNAILS, MOST_THUMBNAILS_LARGE = 8, 4
STRIP_HEIGHT = 40
TEMPLATES = "templates"


@dataclass(frozen=True)
class Drawing:
    """A plot as it stands in a page."""

    name: str
    title: str
    caption: str
    sources: tuple[str, ...]
    svg: str
    phone_svg: str | None


def drawing(plot: Plot, svg: str, phone_svg: str | None = None) -> Drawing:
    """Return a plot made ready for a page, of the SVG documents it was written as."""
    narrow = for_page(phone_svg, f"{plot.name}-phone", plot.title) if phone_svg else None
    return Drawing(
        plot.name,
        plot.title,
        plot.caption,
        plot.sources,
        for_page(svg, plot.name, plot.title),
        narrow,
    )


@cache
def environment() -> Environment:
    """Return what renders the templates of this package."""
    made = Environment(
        loader=PackageLoader(__package__, TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        colours=variables(),
        level=level,
        width=width,
        radius=radius,
        raw=_raw,
        chip=_chip,
        members=members_text,
    )
    return made


def _raw(name: str) -> str:
    """Return one of this package's own files, style or script, as it is."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def _chip(place: int) -> str:
    """Return the name of the colour of a clique by its place in the round."""
    return f"c{place % 12}"


def radius(pct: float, style: str) -> float:
    """Return the radius of a city's disc whose busier access direction is so full."""
    largest = (WIDE if style == "wide" else PHONE).dot_radius
    return round(largest * (0.5 + 0.45 * min(pct, 100) / 100), 1)


def run_page(view: RunView, drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """Return the page of a run.

    Args:
        view: the run.
        drawings: by section: `training`, `rounds`, `timeline`, `links`, `machine`.
    """
    material = view.material
    template = environment().get_template("run.html.j2")
    return template.render(
        title=title(view),
        part_of="" if material.shared == material.run.path else SHARED + REPORT,
        description=description(view),
        verdict=verdict(material.run.state, material.run.reason, material.run.summary),
        facts=facts(view),
        drawings=drawings,
        map=map_data(view),
        manifest=manifest_data(view),
        round_table=round_table(view),
        prediction_table=prediction_table(view),
        link_table=link_table(view),
        background_table=background_table(view),
        calibration_table=calibration_table(view),
        round_trip_table=round_trip_table(view),
        witness_table=witness_table(view),
        event_table=event_table(view),
    )


# --- the map --------------------------------------------------------------------------------------


def map_data(view: RunView) -> dict[str, Any] | None:
    """Return what the map's template needs; None for a network that is not known."""
    topology, frames = view.material.topology, view.frames
    if topology is None:
        return None
    layouts: dict[str, WorldMap] = {
        "wide": world_map(topology, WIDE),
        "phone": world_map(topology, PHONE),
    }
    return {
        "layouts": layouts,
        "land": land_path(windows_of(topology)),
        "first": _first_state(frames),
        "thumbnails": thumbnails(view),
        "strip": strip_path(frames),
        "frames": frames,
        "data": json_for_script(frames.to_data()),
        "islands": len(topology.sites),
    }


def phone_map(topology: Topology) -> dict[str, Any]:
    """Return the small map alone, for a page that draws plans on it."""
    return {
        "layouts": {"phone": world_map(topology, PHONE)},
        "land": land_path(windows_of(topology)),
    }


def json_for_script(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def state_of(frames: Frames, place: int) -> dict[str, Any]:
    """Return what the map shows in a round: percent by direction and clique by site."""
    if place >= len(frames.rounds):
        return {"used": {}, "clique": {}, "frame": None}
    frame = frames.rounds[place]
    used = dict(zip(frames.directions, frame.utilization_pct, strict=True))
    clique = {site: i for i, one in enumerate(frame.cliques) for site in one.sites}
    return {"used": used, "clique": clique, "frame": frame}


def _first_state(frames: Frames) -> dict[str, Any]:
    return state_of(frames, 0)


def thumbnails(view: RunView) -> list[tuple[int, dict[str, Any]]]:
    """Return the rounds to show small: one of each of the plan's rounds, then more in order."""
    large = len(view.frames.directions) > LARGE_DIRECTIONS
    most = MOST_THUMBNAILS_LARGE if large else MOST_THUMBNAILS
    known = view.rounds[: len(view.frames.rounds)]
    first_of: dict[int, int] = {}
    for place, one in enumerate(known):
        first_of.setdefault(one.plan_round, place)
    chosen = sorted(first_of.values())[:most]
    others = [place for place in range(len(known)) if place not in chosen]
    shown = sorted([*chosen, *others[: most - len(chosen)]])
    return [(place, state_of(view.frames, place)) for place in shown]


def strip_path(frames: Frames) -> str:
    """Return the rate of all links over time as an area, a unit wide for each stretch."""
    rates = [stretch.wan_mbps for stretch in frames.stretches]
    most = max(rates, default=0.0)
    if most <= 0:
        return ""
    heights = [STRIP_HEIGHT * (1 - rate / most) for rate in rates]
    steps = "".join(f"L{i} {y:.1f}L{i + 1} {y:.1f}" for i, y in enumerate(heights))
    return f"M0 {STRIP_HEIGHT}{steps}L{len(rates)} {STRIP_HEIGHT}z"


# --- the manifest ---------------------------------------------------------------------------------


def manifest_data(view: RunView) -> dict[str, Any]:
    """Return how to repeat the run and what it ran on."""
    manifest = view.material.manifest
    git, machine = manifest.get("git") or {}, manifest.get("machine") or {}
    memory = machine.get("memory_bytes")
    rows = {
        "Run": manifest.get("run_id"),
        "Started": when(manifest.get("started")),
        "Topology": manifest.get("topology"),
        "Rate scale": manifest.get("rate_scale"),
        "Capability": manifest.get("capability"),
        "Links": manifest.get("link_backend"),
        "Datapath": manifest.get("datapath"),
        "Congestion control": manifest.get("congestion_control"),
        "Seeds": ", ".join(f"{k} {v}" for k, v in (manifest.get("seeds") or {}).items()),
        "Source": _source_text(git),
        "Machine": ", ".join(
            str(part)
            for part in (
                machine.get("system"),
                f"Linux {machine['kernel']}" if machine.get("kernel") else None,
                f"{machine['cores']} cores" if machine.get("cores") else None,
                f"{memory / 2**30:.0f} GiB" if memory else None,
            )
            if part
        ),
    }
    return {
        "command": manifest.get("command"),
        "rows": {name: value for name, value in rows.items() if value not in (None, "")},
        "versions": manifest.get("versions") or {},
        "text": json.dumps(manifest, indent=1),
    }


def _source_text(git: Mapping[str, Any]) -> str:
    commit = git.get("commit")
    if not commit:
        return ""
    return f"commit {commit[:12]}" + (", with changes of its own" if git.get("dirty") else "")
