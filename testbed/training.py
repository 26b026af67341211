"""The experiment itself: deploy a worker to each island, let them train, count what they send.

Ranks follow the best ring of the network. Gloo's ring sends *downwards*, from rank r to rank r - 1
(`workloads.collectives.ring`), so rank order is the best ring's order read backwards.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from schedules.ring import best_ring_order, ring_share
from testbed.capturing import Captured, capturing
from testbed.deploy.environment import command_line, worker_environments
from testbed.deploy.fleet import Fleet
from testbed.deploy.island import Islands
from testbed.emulation.emulation import Emulation
from testbed.measure.counters import WireEnds, wire_ends
from testbed.measure.predict import Hop, expected_bytes, ring_bound, ring_hops
from testbed.measure.reach import Reachability
from testbed.measure.sampler import Sampler
from testbed.measure.witnesses import compare_witnesses
from testbed.monitor.watch import FILE_NAME as FIDELITY_NAME
from testbed.monitor.watch import FidelityMonitor
from testbed.order import Order
from testbed.progress import Stages
from testbed.record.summary import Evidence, Summary, settled_rounds, summarize
from testbed.record.tables import link_table, number, round_table, traffic_table
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
from topologies.model import Direction
from workloads.collectives.ring import expected_ring_payload_bytes

OUTPUT_DIRECTORY = "/tmp/job/out"
SETTLE_S = 0.8


@dataclass(frozen=True)
class Job:
    """One training on a standing WAN: what is needed to start it and to judge it.

    Attributes:
        rank_order: site codes; the place is the rank.
        hops: the ring's hops, source and target, in the direction in which bytes flow.
    """

    order: Order
    wan: Emulation
    rank_order: tuple[str, ...]
    hops: tuple[Hop, ...]
    ends: Mapping[Direction, WireEnds]

    @classmethod
    def of(cls, order: Order, wan: Emulation) -> Job:
        """Plan the job: the best ring of the network decides the ranks."""
        ring = best_ring_order(wan.topology)
        ends = wire_ends({wire.index: wire.forward for wire in wan.network.wires})
        return cls(order, wan, tuple(reversed(ring)), ring_hops(ring), ends)

    def commands(self) -> dict[str, str]:
        """Return the command line of the worker at each site."""
        order, fabric = self.order, self.wan.fabric
        environments = worker_environments(
            fabric, self.rank_order, python_path=[Path(WORK_DIRECTORY)]
        )
        argv = [sys.executable, "-m", "workloads.training.train"]
        argv += ["--rounds", str(order.rounds), "--outer", order.outer, "--seed", str(order.seed)]
        argv += ["--out", OUTPUT_DIRECTORY, "--events"]
        if order.outer != "none":
            argv += ["--local-steps", str(order.local_steps)]
        return {
            site: command_line(argv, environment, WORK_DIRECTORY)
            for site, environment in environments.items()
        }

    def payload(self, message_bytes: int) -> dict[Hop, float]:
        """Return what gloo's ring sends along each hop in one round, chunk by chunk."""
        rank = {site: number for number, site in enumerate(self.rank_order)}
        members = len(self.rank_order)
        return {
            hop: float(expected_ring_payload_bytes(message_bytes, members, rank[hop[0]]))
            for hop in self.hops
        }

    def plan(self) -> dict[str, Any]:
        """Return the plan of the run as the manifest keeps it: one clique, a ring."""
        return {
            "objective": "ring",
            "rank_order": list(self.rank_order),
            "rounds": [{"cliques": [list(self.wan.topology.codes)], "collective": "ring"}],
        }


def train(
    order: Order,
    wan: Emulation,
    islands: Islands,
    reach: Reachability,
    record: RunRecord,
    stages: Stages,
) -> int:
    """Train over the standing WAN and write what came of it; returns the exit code.

    Raises:
        WorkersFailed: a worker failed; it names the first and its last words.
        RunError: a part of the WAN died, or the time was over.
    """
    job = Job.of(order, wan)
    record.amend_manifest(plan=job.plan())
    with islands.fleet(island_progress(stages)) as fleet:
        deploy(fleet, stages)
        with (
            sampling(job.wan, job.ends, record) as sampler,
            _capture(job, record) as captured,
            FidelityMonitor(wan, record.path / FIDELITY_NAME) as monitor,
        ):
            reports = _work(job, fleet, sampler, record, stages)
            time.sleep(SETTLE_S)
        collect(fleet, record, stages)
    evidence = replace(
        _evidence(job, reports.snapshot(), sampler),
        reach=reach,
        cross_check=compare_witnesses(wan, job.ends),
        further_reasons=captured.reasons,
        machine_reasons=monitor.reasons(),
    )
    return _conclude(job, summarize(evidence), captured, record, stages)


def collect(fleet: Fleet, record: RunRecord, stages: Stages) -> None:
    """Fetch every worker's own log; it replaces what was reported on the way."""
    stages.announce("Collecting results", total=len(fleet.sites))
    local = record.path / "collected"
    for site, folder in fleet.collect(OUTPUT_DIRECTORY, local).items():
        record.replace_worker_log(site, (folder / "worker.jsonl").read_text())
        (folder / "worker.jsonl").unlink()
        folder.rmdir()
        (local / site).rmdir()
    local.rmdir()


def _work(job: Job, fleet: Fleet, sampler: Sampler, record: RunRecord, stages: Stages) -> Reports:
    """Start the workers and follow them to their end."""
    stages.announce(f"Training {job.order.rounds} rounds", total=job.order.rounds)
    reports = Reports(record)
    processes = fleet.start(job.commands(), record.path / "workers", on_line=reports.take)

    def check() -> None:
        if reports.has_news():
            _follow(job, reports, sampler, record, stages)

    fleet.watch(processes, job.order.timeout_s, on_poll=alive(job.wan, sampler, record, check))
    return reports


def _follow(
    job: Job, reports: Reports, sampler: Sampler, record: RunRecord, stages: Stages
) -> None:
    """Append the rounds that are settled and show how far the training is."""
    rows = reports.snapshot()
    if len(rows) < len(job.rank_order):
        return
    settled = settled_rounds(_evidence(job, rows, sampler))
    record.rounds(settled)
    done = min(sum(row["event"] == "round" for row in site_rows) for site_rows in rows.values())
    stages.advance(done, _note(settled))


def _note(settled: Sequence[Mapping[str, Any]]) -> str:
    if not settled:
        return ""
    last = settled[-1]
    return f"held-out loss {last['held_out_loss']:.3f}, sync {last['sync_s']:.1f} s"


def _evidence(job: Job, rows: Rows, sampler: Sampler) -> Evidence:
    wan = job.wan
    starts = [row for site in rows.values() for row in site if row["event"] == "start"]
    message_bytes = int(starts[0]["message_bytes"]) if starts else 0
    rate_mbps = min(wan.topology.access[code].rate_mbps for code in wan.topology.codes)
    return Evidence(
        sites=wan.topology.codes,
        workers=rows,
        links=sampler.series(),
        message_bytes=message_bytes,
        expected=expected_bytes(job.payload(message_bytes), wan.routes, wan.topology.mtu_bytes),
        bound=ring_bound(job.hops, wan.routes, message_bytes, rate_mbps),
    )


def _capture(job: Job, record: RunRecord) -> AbstractContextManager[Captured]:
    """Capture while the body runs, when the order asks for it."""
    if not job.order.capture:
        return nullcontext(Captured())
    return capturing(job.ends, record, job.wan.fabric.site_of_island_ip)


def closing_lines(job: Job, summary: Summary, record: RunRecord) -> list[str]:
    """Return what a run came to, in a few lines."""
    message_bytes, members = summary["message_bytes"], len(job.rank_order)
    hop_bytes = ring_share(members) * message_bytes
    loss = summary["held_out_loss"]
    peak_bytes = max(summary["peak_memory_bytes"].values(), default=0)
    ring = ">".join([hop[0] for hop in job.hops])
    return [
        f"Ring {ring}: each hop carries 2(N-1)/N x M = {hop_bytes / 1e6:.3f} MB of payload a "
        f"round (N = {members}, M = {message_bytes / 1e6:.3f} MB).",
        f"Held-out loss {number(loss['first'], 3)} after the first round, "
        f"{number(loss['last'], 3)} after the last; a worker took at most "
        f"{peak_bytes / 2**20:.0f} MiB. Bring-up {job.wan.bring_up_s:.1f} s.",
        f"Record: {record.path}",
    ]


def _conclude(
    job: Job, summary: Summary, captured: Captured, record: RunRecord, stages: Stages
) -> int:
    record.rounds(summary["rounds"])
    traffic = {f"{a}>{b}": asdict(flow) for (a, b), flow in sorted(captured.sent.items())}
    written = {**summary, "captured_traffic": traffic or None}
    record.write_summary(written)
    stages.finish()
    console = stages.console
    console.print(round_table(summary))
    console.print(link_table(summary))
    if captured.sent:
        console.print(traffic_table(captured.sent))
    for line in closing_lines(job, summary, record):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for reason in summary["reasons"]:
        console.print(f"INVALID: {reason}", style="red", markup=False)
    if job.order.as_json:
        print(json.dumps(written, indent=1))
    return 0 if summary["valid"] else 1
