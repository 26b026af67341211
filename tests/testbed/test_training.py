import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from controller.fabric import Fabric
from testbed.capturing import counted_since, incomplete
from testbed.emulation.emulation import Emulation
from testbed.emulation.plan import plan_wires
from testbed.experiment.job import Job
from testbed.experiment.model import Accelerators, Outer, PlanChoice, Variant, Workload
from testbed.experiment.planning import schedule_of
from testbed.measure.capture import CaptureStatistics
from testbed.measure.counters import DirectionCounters
from testbed.measure.predict import ring_hops
from testbed.measure.series import Counts
from testbed.record.writer import RunRecord
from testbed.workers import Reports
from topologies.files import load
from topologies.model import Direction
from topologies.routing import least_delay_routes
from workloads.collectives.ring import ring_successor

MESSAGE_BYTES = 3_243_520
NYC_LON = Direction("NYC", "LON")


RING = Variant(collective="ring", plan=PlanChoice(full_clique=True))


def job_of(variant: Variant, **fields: Any) -> Job:
    topology = load("nine_city").scaled(0.01)
    fabric = Fabric.of(topology)
    network = SimpleNamespace(wires=plan_wires(topology, fabric))
    wan: Any = SimpleNamespace(
        topology=topology, fabric=fabric, network=network, routes=least_delay_routes(topology)
    )
    schedule = schedule_of(variant, Accelerators(), topology, MESSAGE_BYTES)
    return Job.of(variant, schedule, MESSAGE_BYTES, cast(Emulation, wan), **fields)


def test_every_hop_leads_to_the_rank_that_gloo_sends_to() -> None:
    job = job_of(RING)
    rank = {site: number for number, site in enumerate(job.rank_order)}
    hops = ring_hops(job.schedule.rounds[0].cliques[0])
    assert len(hops) == 9
    for source, target in hops:
        assert ring_successor(rank[source], 9) == rank[target]


def test_all_hops_together_carry_two_times_n_minus_one_messages() -> None:
    (plan,) = job_of(RING).plans()
    up = sum(x.payload for way, x in plan.expected.items() if way.source.endswith(".island"))
    assert up == 2 * 8 * MESSAGE_BYTES


def test_every_worker_is_told_its_rank_and_the_interface() -> None:
    job = job_of(RING)
    commands = job.commands()
    assert set(commands) == set(job.rank_order)
    for number, site in enumerate(job.rank_order):
        assert f"RANK={number} " in commands[site]
        assert "GLOO_SOCKET_IFNAME=wan0" in commands[site]
        assert "--local-steps 10" in commands[site]
        assert "--schedule /tmp/job/jobs/default-1/schedule.json" in commands[site]


def test_what_is_left_open_is_left_to_the_worker() -> None:
    words = job_of(RING).options()
    for option in ("--preset", "--job-file", "--stop-file", "--outer-momentum", "--compute-scale"):
        assert option not in words


def test_workers_are_told_all_that_a_variant_says() -> None:
    variant = replace(
        RING,
        outer=Outer("diloco", learning_rate=0.5),
        workload=Workload(preset="tiny", dirichlet_alpha=0.3),
        overlap_fragments=4,
        target_loss=2.0,
    )
    told = " ".join(job_of(variant).options())
    for words in (
        "--outer diloco --outer-learning-rate 0.5",
        "--preset tiny",
        "--dirichlet-alpha 0.3",
        "--overlap-fragments 4",
        "--stop-file /tmp/job/jobs/default-1/stop.json",
    ):
        assert words in told


def test_each_repetition_has_a_seed_of_its_own() -> None:
    seeds = [job_of(RING, seed=5, repetition=repetition).seed for repetition in (1, 2, 3)]
    assert seeds == [5, 6, 7]


def test_reports_pass_over_what_is_no_event(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "run", {})
    reports = Reports(record)
    for line in ("warning: something", "[1, 2]", '{"no": "event"}', '{"event": "start"}'):
        reports.take("NYC", line)
    record.end()
    assert reports.snapshot() == {"NYC": [{"event": "start"}]}
    written = record.worker_log("NYC").read_text().splitlines()
    assert [json.loads(line) for line in written] == [{"event": "start"}]


def test_what_entered_between_two_readings_is_their_difference() -> None:
    before = {NYC_LON: DirectionCounters(100, 1, 90, 1, 0)}
    after = {NYC_LON: DirectionCounters(350, 4, 340, 4, 2)}
    assert counted_since(before, after) == {NYC_LON: Counts(250, 3, 2)}


def test_an_incomplete_capture_is_named_with_its_direction() -> None:
    whole, torn = CaptureStatistics(10, 0), CaptureStatistics(10, 3)
    assert incomplete({NYC_LON: whole}) == []
    assert incomplete({NYC_LON: torn}) == [
        "capture of NYC>LON is not whole: 10 frames kept, 3 dropped"
    ]
