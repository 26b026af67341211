"""Hand arithmetic: three islands, 1 MB each, two repetitions."""

from typing import Any

import pytest

from schedules.capabilities import Capabilities
from testbed.benching.cliques import Planned, plan_cliques
from testbed.benching.rows import Measured, durations_s, percentile, rows_of
from testbed.benching.run import speed_ups
from testbed.measure.series import Counts, Series
from topologies.files import load
from topologies.model import Direction


@pytest.fixture(scope="module")
def planned() -> dict[str, Planned]:
    able = Capabilities.parse("multicast+aggregation")
    return plan_cliques(load("three_city").scaled(0.01), able, ("ring", "innetwork"))


def worker(begin: float, end: float) -> dict[str, Any]:
    return {
        "event": "size",
        "size_bytes": 1_000_000,
        "began": [begin, begin + 10],
        "ended": [end, end + 10],
        "wrong": 0,
        "cpu_s": 0.2,
    }


def measured(kind: str, planned: dict[str, Planned]) -> Measured:
    workers = {"AMS": [worker(0, 2.0)], "FRA": [worker(0.5, 2.5)], "LON": [worker(1.0, 1.5)]}
    links = {}
    for way, factor in (("AMS>FRA", 1), ("AMS.island>AMS", 5)):
        series = Series()
        series.append(-5.0, Counts(0, 0, 0))
        series.append(-4.0, Counts(7_000_000, 0, 0))  # before the repetitions
        series.append(30.0, Counts(7_000_000 + 34 * 100_000 * factor, 0, 0))
        links[Direction.parse(way)] = series
    return Measured(kind, planned[kind], workers, links, pause_s=1.0)


def test_a_repetition_lasts_from_the_last_beginning_to_the_last_end() -> None:
    assert durations_s([worker(0, 2.0), worker(0.5, 2.5), worker(1.0, 1.5)]) == [1.5, 1.5]


def test_a_row_holds_time_bandwidth_and_bytes_of_one_repetition(
    planned: dict[str, Planned],
) -> None:
    (row,) = rows_of(measured("ring", planned))
    assert row["time_avg_s"] == 1.5
    assert row["algbw_mbps"] == pytest.approx(8 / 1.5)
    assert row["busbw_mbps"] == pytest.approx(8 / 1.5 * 4 / 3)
    # From -0.5 s to 13 s, 100 kB a second over the one WAN link, in two repetitions.
    assert row["wan_bytes"] == pytest.approx(13.5 * 100_000 / 2)
    assert row["worker_cpu_s"] == pytest.approx(0.1)


def test_bus_bandwidth_is_left_out_where_it_means_nothing(planned: dict[str, Planned]) -> None:
    (row,) = rows_of(measured("innetwork", planned))
    assert row["busbw_mbps"] is None


def test_the_bound_counts_headers_and_latency(planned: dict[str, Planned]) -> None:
    # 8 Mbit over 100 Mbit/s, 106 bytes of headers and 8 exponents for 8 blocks of 1,024, and from
    # LON to AMS and out to FRA.
    (row,) = rows_of(measured("innetwork", planned))
    assert row["bound_transfer_s"] == pytest.approx(0.08 * (1 + 114 / 8192))
    assert row["bound_latency_s"] == pytest.approx(0.00422)
    assert row["ratio"] == pytest.approx(1.5 / row["bound_s"])
    assert row["traversals_expected"] == 4.0


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([1.0], 1) == 1.0


def test_speed_ups_are_told_over_the_ring_and_over_the_exchange() -> None:
    rows = [
        {"collective": kind, "size_bytes": 4, "time_p50_s": seconds}
        for kind, seconds in (("ring", 3.0), ("exchange", 6.0), ("innetwork", 1.5))
    ]
    assert speed_ups(rows) == ["innetwork, 4 bytes: 2.00 x over ring, 4.00 x over exchange"]
