"""A run as a trace for Perfetto or chrome://tracing: who did what when, and what links carried.

Workers are processes, their phases slices; link directions are counters in Mbit/s; faults and other
events are marks over everything. Format: the Trace Event Format of Chromium, JSON object form; time
stamps are microseconds since the run's first event, so that they keep their precision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.measure.series import Series
from testbed.report.formats import number
from testbed.report.phases import Phase
from testbed.report.rounds import Round
from testbed.report.view import RunView
from topologies.model import Direction

RUN_PROCESS, LINKS_PROCESS, FIRST_WORKER = 1, 2, 10
MICROSECONDS = 1e6
BITS_PER_BYTE = 8

Event = dict[str, Any]


def write_trace(view: RunView, path: Path) -> None:
    """Write the trace of a run."""
    path.write_text(json.dumps(trace(view), separators=(",", ":")) + "\n", encoding="utf-8")


def trace(view: RunView) -> dict[str, Any]:
    """Return the trace of a run as plain data."""
    origin = origin_s(view)
    events = [
        *_named(RUN_PROCESS, "run", 0),
        *_named(LINKS_PROCESS, "links", 1000),
        *_rounds(view.rounds, origin),
        *_workers(view.phases, origin),
        *_links(view.material.links, origin),
        *_marks(view.material.run.events, origin),
    ]
    other = {"run": view.material.manifest.get("run_id"), "origin_unix_s": origin}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def origin_s(view: RunView) -> float:
    """Return the UNIX time of the first thing that is recorded."""
    events = [t for row in view.material.run.events if (t := number(row.get("time"))) is not None]
    samples = [series.times[0] for series in view.material.links.values() if series.times]
    phases = [phase.start_s for phase in view.phases]
    return min([*events, *samples, *phases], default=0.0)


def _named(process: int, name: str, order: int) -> list[Event]:
    base = {"ph": "M", "pid": process, "tid": 0}
    return [
        {**base, "name": "process_name", "args": {"name": name}},
        {**base, "name": "process_sort_index", "args": {"sort_index": order}},
    ]


def _slice(name: str, process: int, thread: int, start: float, end: float) -> Event:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": round(start * MICROSECONDS, 1),
        "dur": round(max(0.0, end - start) * MICROSECONDS, 1),
    }


def _rounds(rounds: Sequence[Round], origin: float) -> Iterator[Event]:
    for one in rounds:
        event = _slice(f"round {one.number}", RUN_PROCESS, 1, one.start - origin, one.end - origin)
        cliques = [list(clique.sites) for clique in one.cliques]
        yield {**event, "args": {**one.figures, "cliques": cliques}}


def _workers(phases: Sequence[Phase], origin: float) -> Iterator[Event]:
    sites = sorted({phase.site for phase in phases})
    process = {site: FIRST_WORKER + place for place, site in enumerate(sites)}
    for site in sites:
        yield from _named(process[site], f"{site} worker", process[site])
    for phase in phases:
        start, end = phase.start_s - origin, phase.end_s - origin
        event = _slice(phase.kind, process[phase.site], 1, start, end)
        yield {**event, "args": {"round": phase.round, **phase.figures}}


def _links(links: Mapping[Direction, Series], origin: float) -> Iterator[Event]:
    """Yield the mean rate from each sample to the next, and nothing after the last."""
    for direction, series in links.items():
        base = {"ph": "C", "name": str(direction), "pid": LINKS_PROCESS, "tid": 0}
        last = None
        for place, time in enumerate(series.times):
            mbps = _rate_from(series, place)
            if mbps != last:
                stamp = round((time - origin) * MICROSECONDS, 1)
                yield {**base, "ts": stamp, "args": {"Mbit/s": mbps}}
            last = mbps


def _rate_from(series: Series, place: int) -> float:
    """Return the mean rate in Mbit/s from a sample to the one after it."""
    if place + 1 >= len(series.times):
        return 0.0
    span = series.times[place + 1] - series.times[place]
    count = series.bytes[place + 1] - series.bytes[place]
    return round(count * BITS_PER_BYTE / 1e6 / span, 3) if span > 0 else 0.0


def _marks(rows: Sequence[Mapping[str, Any]], origin: float) -> Iterator[Event]:
    for row in rows:
        time = number(row.get("time"))
        if time is not None:
            yield {
                "ph": "i",
                "s": "g",
                "name": str(row.get("event", "event")),
                "pid": RUN_PROCESS,
                "tid": 1,
                "ts": round((time - origin) * MICROSECONDS, 1),
                "args": {name: value for name, value in row.items() if name != "time"},
            }
