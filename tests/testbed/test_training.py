import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.fabric import Fabric
from testbed.capturing import counted_since, incomplete
from testbed.emulation.emulation import Emulation
from testbed.emulation.plan import plan_wires
from testbed.measure.capture import CaptureStatistics
from testbed.measure.counters import DirectionCounters
from testbed.measure.series import Counts
from testbed.order import Order
from testbed.record.writer import RunRecord
from testbed.training import Job
from testbed.workers import Reports
from topologies.files import load
from topologies.model import Direction
from topologies.routing import least_delay_routes
from workloads.collectives.ring import ring_successor

ORDER = Order("emulate", "run", "nine_city", "runs/run", 0.01, "userspace", "linkd")
NYC_LON = Direction("NYC", "LON")


@pytest.fixture
def job() -> Job:
    topology = load("nine_city")
    fabric = Fabric.of(topology)
    network = SimpleNamespace(wires=plan_wires(topology, fabric))
    wan: Any = SimpleNamespace(
        topology=topology, fabric=fabric, network=network, routes=least_delay_routes(topology)
    )
    return Job.of(ORDER, cast(Emulation, wan))


def test_every_hop_leads_to_the_rank_that_gloo_sends_to(job: Job) -> None:
    rank = {site: number for number, site in enumerate(job.rank_order)}
    assert len(job.hops) == 9
    for source, target in job.hops:
        assert ring_successor(rank[source], 9) == rank[target]


def test_all_hops_together_carry_two_times_n_minus_one_messages(job: Job) -> None:
    assert sum(job.payload(3_243_520).values()) == 2 * 8 * 3_243_520


def test_every_worker_is_told_its_rank_and_the_interface(job: Job) -> None:
    commands = job.commands()
    assert set(commands) == set(job.rank_order)
    for number, site in enumerate(job.rank_order):
        assert f"RANK={number} " in commands[site]
        assert "GLOO_SOCKET_IFNAME=wan0" in commands[site]
        assert "--local-steps 10" in commands[site]


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
