"""What is named when sums in the network are no faster than a ring."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.accelerator.config import Counters, ProcessCounters, TreeCounters
from testbed.benching.why import Circumstances, explanations, slower_than_ring
from workloads.innetwork.job import GroupJob, MemberPlace, Place, TreeJob

MEMBERS = tuple(MemberPlace(n, s, Place(f"10.0.0.{n + 1}", 7100)) for n, s in enumerate("ABC"))
TREE = TreeJob(0, (0, 1, 2), (0, 1, 2), Place("10.2.0.2", 7000))
GROUP = GroupJob("innetwork", 7, 1, 500, 8904, 100.0, 200.0, MEMBERS, (TREE,))
ROW: dict[str, Any] = {
    "collective": "innetwork",
    "size_bytes": 4_000_000,
    "bound_s": 0.5,
    "bound_latency_s": 0.2,
    "time_p50_s": 1.0,
    "worker_cpu_s": 0.1,
}


def counters(tree: TreeCounters | None = None, **process: int) -> Counters:
    return Counters(ProcessCounters(**process), {(7, 0): tree or TreeCounters(packets=9)})


@pytest.fixture
def healthy() -> Circumstances:
    return Circumstances(ROW, (GROUP,), 100.0, {"A": counters()}, {"A": counters()}, timed_s=10.0)


def only(circumstances: Circumstances) -> str:
    (line,) = explanations(circumstances)
    return line


def test_nothing_is_said_where_nothing_held_it_back(healthy: Circumstances) -> None:
    assert explanations(healthy) == []


def test_traffic_that_never_reached_an_accelerator(healthy: Circumstances) -> None:
    assert "was not steered" in only(replace(healthy, after={"A": counters(TreeCounters())}))


def test_a_message_too_small_for_the_delays(healthy: Circumstances) -> None:
    row = {**ROW, "bound_latency_s": 0.4}
    assert only(replace(healthy, row=row)).startswith("80 % of its bound is the latency")


def test_a_window_that_does_not_fill_the_round_trip(healthy: Circumstances) -> None:
    # 64 packets of 9,010 bytes in 200 ms: 23 Mbit/s, the arithmetic of 64 x 72,080 bit / 0.2 s.
    group = replace(GROUP, window=64)
    assert "allow 23.1 Mbit/s, less than the planned 100.0" in only(
        replace(healthy, groups=(group,))
    )


def test_pacing_below_the_access_rate(healthy: Circumstances) -> None:
    group = replace(GROUP, rate_mbps=50.0)
    assert "paced at 50.0 Mbit/s" in only(replace(healthy, groups=(group,)))


def test_an_accelerator_at_its_limit_or_out_of_time(healthy: Circumstances) -> None:
    throttled = replace(healthy, after={"A": counters(throttled_us=9_500_000)})
    assert only(throttled) == "the accelerator of A was held at its own rate limit 95 % of the time"
    busy = replace(healthy, after={"A": counters(busy_us=9_900_000)})
    assert "the accelerator of A was at work" in only(busy)


def test_workers_without_time_left(healthy: Circumstances) -> None:
    assert "computed 95 %" in only(replace(healthy, row={**ROW, "worker_cpu_s": 0.95}))


def test_packets_that_had_to_be_sent_again(healthy: Circumstances) -> None:
    lossy = replace(healthy, after={"A": counters(TreeCounters(packets=9, gaps=12))})
    assert only(lossy) == "accelerators missed 12 packets, which had to be sent again"


def test_a_row_no_faster_than_the_ring_of_its_size_is_found() -> None:
    ring = {"collective": "ring", "size_bytes": 4_000_000, "time_p50_s": 1.0}
    faster = {**ROW, "time_p50_s": 0.9}
    assert slower_than_ring([ring, ROW, faster]) == [ROW]
