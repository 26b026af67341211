"""Measure collectives on a standing WAN: lay out trees, start workers, count, compare.

All kinds are laid out before the first is measured, so that no rule changes while packets fly. Then
each kind has its own workers, one after the other on the same links.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedules.capabilities import EXCHANGE
from testbed.accelerator.config import Counters
from testbed.benching.cliques import Planned, from_data
from testbed.benching.drawing import draw
from testbed.benching.options import BenchOptions
from testbed.benching.rows import P2P_KINDS, Measured, rows_of
from testbed.benching.table import bench_table
from testbed.benching.why import Circumstances, explanations, slower_than_ring
from testbed.deploy.environment import command_line, worker_environments
from testbed.deploy.fleet import Fleet
from testbed.deploy.island import Islands
from testbed.emulation.emulation import Emulation
from testbed.experiment.trees import (
    JOB_NAME,
    install,
    push_groups,
    slowest_rate_mbps,
)
from testbed.innetwork.layout import Layout
from testbed.innetwork.limits import alike
from testbed.measure.counters import wire_ends
from testbed.measure.forecast import exchange_pace_mbps
from testbed.measure.sampler import Sampler
from testbed.monitor.watch import FILE_NAME as FIDELITY_NAME
from testbed.monitor.watch import FidelityMonitor
from testbed.order import Order
from testbed.progress import Stages
from testbed.record.writer import RunRecord
from testbed.workers import (
    WORK_DIRECTORY,
    Reports,
    Rows,
    alive,
    deploy,
    island_progress,
    sampling,
)
from workloads.innetwork.build import ensure_built

ROWS_NAME = "collectives.json"
PAUSE_S = 1.0


@dataclass(frozen=True)
class Bench:
    """What is measured, where.

    Attributes:
        rank_order: site codes; the place is the rank. Gloo's ring runs from each to the one before.
        layouts: of the kinds that work with the network, part by part of their messages.
    """

    order: Order
    wan: Emulation
    options: BenchOptions
    planned: Mapping[str, Planned]
    rank_order: tuple[str, ...]
    layouts: Mapping[str, tuple[Layout, ...]]

    @property
    def all_layouts(self) -> list[Layout]:
        """Of all kinds; they are open together."""
        return [one for of_kind in self.layouts.values() for one in of_kind]


def prepare(order: Order, wan: Emulation) -> Bench:
    """Lay the trees of the plans that the order brings out on a standing WAN."""
    assert order.bench is not None
    options, planned = BenchOptions(**order.bench["options"]), from_data(order.bench["planned"])
    drawn = draw(wan, planned, alike(order.accelerators, order.accelerator_limits))
    return Bench(order, wan, options, drawn.planned, drawn.rank_order, drawn.layouts)


def injure(bench: Bench) -> None:
    """Add the asked loss and duplication to what every link direction does by itself."""
    options = bench.options
    if not (options.loss_pct or options.duplicate_pct):
        return
    for direction in bench.wan.topology.directions():
        bench.wan.links.change(
            direction, loss_pct=options.loss_pct, duplicate_pct=options.duplicate_pct
        )


def measure_collectives(
    order: Order, wan: Emulation, islands: Islands, record: RunRecord, stages: Stages
) -> int:
    """Measure what the order asks for and write it down; returns the exit code.

    Raises:
        WorkersFailed: a worker failed; it names the first and its last words.
        RunError: a part of the WAN died, or the time was over.
    """
    bench = prepare(order, wan)
    record.amend_manifest(
        plan={kind: json.loads(one.plan.to_json()) for kind, one in bench.planned.items()}
    )
    stages.announce(f"Laying out {sum(len(one.trees) for one in bench.all_layouts)} trees")
    install(bench.all_layouts, wan)
    injure(bench)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    ends = wire_ends({wire.index: wire.forward for wire in wan.network.wires})
    with islands.fleet(island_progress(stages)) as fleet:
        ensure_built()
        deploy(fleet, stages)
        with (
            sampling(wan, ends, record) as sampler,
            FidelityMonitor(wan, record.path / FIDELITY_NAME) as monitor,
        ):
            for kind in bench.options.collectives:
                found, said = _measure(bench, kind, fleet, sampler, record, stages)
                rows += found
                notes += said
    notes += _not_faster(rows, notes)
    return _conclude(bench, rows, notes, monitor.reasons(), record, stages)


def _measure(
    bench: Bench,
    kind: str,
    fleet: Fleet,
    sampler: Sampler,
    record: RunRecord,
    stages: Stages,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Let the workers of one kind run to their end; return its rows and what explains them."""
    stages.announce(f"Measuring {kind}", total=len(bench.options.sizes_bytes))
    if kind in bench.layouts:
        push_groups(bench.layouts[kind], fleet, record.path, WORK_DIRECTORY)
    before, began_s = bench.wan.accelerators.counters(), time.monotonic()
    reports = Reports(record)
    processes = fleet.start(
        commands(bench, kind), record.path / "workers" / kind, on_line=reports.take
    )
    check = alive(bench.wan, sampler, record, lambda: _show(reports, stages))
    fleet.watch(processes, bench.order.timeout_s, on_poll=check)
    sampler.sample()
    after, timed_s = bench.wan.accelerators.counters(), time.monotonic() - began_s
    workers = reports.snapshot()
    rows = rows_of(Measured(kind, bench.planned[kind], workers, sampler.series(), PAUSE_S))
    record.event("collective_measured", collective=kind, rows=rows, accelerators=_plain(after))
    return rows, _explained(bench, kind, rows, before, after, timed_s)


def commands(bench: Bench, kind: str) -> dict[str, str]:
    """Return the command line of the worker at each site."""
    options = bench.options
    environments = worker_environments(
        bench.wan.fabric, bench.rank_order, python_path=[Path(WORK_DIRECTORY)]
    )
    argv = [sys.executable, "-m", "workloads.benching.collective", "--kind", kind]
    argv += ["--sizes-bytes", ",".join(map(str, options.sizes_bytes))]
    argv += ["--iterations", str(options.iterations), "--warm-up", str(options.warm_up)]
    argv += ["--pause-s", str(PAUSE_S), "--seed", str(bench.order.seed)]
    if kind in bench.layouts:
        argv += ["--job", f"{WORK_DIRECTORY}/{JOB_NAME}"]
    if kind == EXCHANGE:
        pace_mbps = exchange_pace_mbps(bench.planned[kind].round, bench.wan.topology)
        argv += ["--pace-mbps", str(pace_mbps)]
    return {
        site: command_line(argv, environment, WORK_DIRECTORY)
        for site, environment in environments.items()
    }


def _show(reports: Reports, stages: Stages) -> None:
    if reports.has_news():
        stages.advance(_sizes_done(reports.snapshot()))


def _sizes_done(rows: Rows) -> int:
    return min(
        (sum(row["event"] == "size" for row in site) for site in rows.values()),
        default=0,
    )


def _explained(
    bench: Bench,
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    before: Mapping[str, Counters],
    after: Mapping[str, Counters],
    timed_s: float,
) -> list[str]:
    if kind not in bench.layouts:
        return []
    groups, rate_mbps = [one.group for one in bench.layouts[kind]], slowest_rate_mbps(bench.wan)
    notes = []
    for row in rows:
        found = explanations(Circumstances(row, groups, rate_mbps, before, after, timed_s))
        notes += [f"{kind}, {row['size_bytes']:,} bytes: {line}" for line in found]
    return notes


def _not_faster(rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> list[str]:
    said = []
    for row in slower_than_ring(rows):
        name = f"{row['collective']}, {row['size_bytes']:,} bytes"
        if not any(note.startswith(f"{name}:") for note in notes):
            said.append(f"{name}: no faster than the ring, and nothing measured here says why")
    return said


def _conclude(
    bench: Bench,
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    reasons: Sequence[str],
    record: RunRecord,
    stages: Stages,
) -> int:
    wrong = sum(row["wrong"] for row in rows)
    result = {"valid": not (reasons or wrong), "reasons": reasons, "notes": notes, "rows": rows}
    (record.path / ROWS_NAME).write_text(json.dumps(result, indent=1) + "\n")
    stages.finish()
    members = len(bench.rank_order)
    stages.console.print(bench_table(rows, f"{members} islands, one clique"))
    for line in [*speed_ups(rows), *notes]:
        stages.console.print(line, highlight=False, markup=False, soft_wrap=True)
    stages.console.print(f"Record: {record.path}", highlight=False, markup=False, soft_wrap=True)
    if wrong:
        stages.console.print(f"WRONG: {wrong} elements", style="red")
    for reason in reasons:
        stages.console.print(f"INVALID: {reason}", style="red", markup=False)
    if bench.order.as_json:
        print(json.dumps(result, indent=1))
    return 0 if result["valid"] else 1


def speed_ups(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how each kind compares with the ring and with the plain exchange on its size."""
    times = {(row["collective"], row["size_bytes"]): row["time_p50_s"] for row in rows}
    lines = []
    for (kind, size), seconds in times.items():
        others = [
            f"{times[other, size] / seconds:.2f} x over {other}"
            for other in P2P_KINDS
            if other != kind and (other, size) in times
        ]
        if others and kind not in P2P_KINDS:
            lines.append(f"{kind}, {size:,} bytes: {', '.join(others)}")
    return lines


def _plain(counters: Mapping[str, Counters]) -> dict[str, Any]:
    return {
        site: {
            "process": vars(one.process),
            "trees": [
                {"job": job, "tree": tree, **vars(found)}
                for (job, tree), found in one.trees.items()
            ],
        }
        for site, one in counters.items()
    }
