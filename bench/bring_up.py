"""How long a network takes to stand: nine cities ready, and a line of many switches.

    sudo .venv/bin/python bench/bring_up.py [--switches 200] [--repetitions 5] [--json]

*Ready* means that every ordered pair of islands was reached (nine cities), or that every switch has
confirmed its rules and neighbours answer (the line). Memory is the proportional set size (PSS) of
everything the run has started.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from testbed.emulation.emulation import EmulationOptions, emulation
from testbed.emulation.network import NetworkOptions
from testbed.host_settings import wanted_settings
from testbed.isolation import isolated
from testbed.measure.reach import Probing, asked_round_trips, measure
from testbed.ownership import RuntimeDirectory
from testbed.supervisor import host_settings
from topologies.files import load
from topologies.model import Access, DirectionSpec, Link, Site, Topology

INSIDE = "--inside"
LINE_RATE_MBPS = 100.0
LINE_DELAY_MS = 1.0


def line(switches: int) -> Topology:
    """Return a line of cities, each joined to the next by 100 Mbit/s and 1 ms."""
    codes = [f"N{number:03d}" for number in range(switches)]
    way = DirectionSpec(LINE_RATE_MBPS, LINE_DELAY_MS)
    return Topology(
        name=f"line_{switches}",
        sites=tuple(Site(code, code, 0.0, index / 10) for index, code in enumerate(codes)),
        links=tuple(Link(a, b, way, way) for a, b in pairwise(codes)),
        access={code: Access(LINE_RATE_MBPS) for code in codes},
        source="made for the bench",
        licence="Apache-2.0",
    )


def measured(topology: Topology, neighbours_only: bool) -> dict[str, float]:
    """Build a network in the current namespaces and return what that took."""
    runtime = RuntimeDirectory(f"bench-{time.time_ns():x}")
    runtime.create()
    try:
        started = time.monotonic()
        options = EmulationOptions(NetworkOptions("userspace"), "linkd")
        with emulation(topology, options, runtime, lambda text: None) as wan:
            asked = asked_round_trips(wan.routes)
            if neighbours_only:
                ends = {(link.a, link.b) for link in topology.links}
                asked = {pair: asked[pair] for pair in ends}
            codes = sorted({code for pair in asked for code in pair})
            reach = measure(
                {code: wan.island_prefix(code) for code in codes},
                {code: wan.fabric.island_ip(code) for code in codes},
                asked,
                Probing.paced(len(codes), max(asked.values()), probes=3, realtime=True),
            ).require_all()
            ready_s = time.monotonic() - started
            errors = [trip.error_ms for trip in reach.round_trips if trip.error_ms is not None]
            memory_mib = pss_mib()
            ended = time.monotonic()
        return {
            "ready_s": ready_s,
            "torn_down_s": time.monotonic() - ended,
            "round_trip_error_ms": statistics.median(errors),
            "memory_mib": memory_mib,
        }
    finally:
        runtime.remove()


def pss_mib() -> float:
    """Return the proportional set size of all processes of this PID namespace, in MiB."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/smaps_rollup"):
        try:
            rows = path.read_text().splitlines()
        except OSError:
            continue
        total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1024


def run_inside(name: str, switches: int) -> dict[str, float]:
    """Run one measurement in namespaces of its own, as an emulation does."""
    command = [sys.executable, __file__, INSIDE, name, "--switches", str(switches)]
    holder = f"bench-{os.getpid()}"
    host_settings().acquire(holder, wanted_settings("cubic"))
    try:
        done = subprocess.run(isolated(command), stdout=subprocess.PIPE, text=True, check=True)
    finally:
        host_settings().release(holder)
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return row


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    """Measure and print a table, or JSON rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(INSIDE, choices=("nine_city", "line"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        nine = given.inside == "nine_city"
        topology = load("nine_city").scaled(0.01) if nine else line(given.switches)
        print(json.dumps(measured(topology, neighbours_only=not nine)))
        return
    nine = medians([run_inside("nine_city", 0) for _ in range(given.repetitions)])
    rows: list[dict[str, Any]] = [
        {"network": "nine_city", "goal": "ready under 6 s", **nine},
        {
            "network": f"line of {given.switches} switches",
            "goal": "built and torn down under 60 s, neighbours' error under 1 ms",
            **run_inside("line", given.switches),
        },
    ]
    show(rows, given.json)


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print rows as JSON or as a table."""
    if as_json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
