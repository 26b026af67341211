import json
from pathlib import Path
from typing import Any

import pytest

from testbed.experiment.background import (
    Background,
    PlannedFlow,
    active_s,
    commands,
    ends_by_site,
    flow_summary,
    plan_flows,
)
from testbed.experiment.background_load import FlowHistory, background_load, extremes
from testbed.experiment.background_model import (
    BackgroundFlow,
    Entry,
    TenantJob,
    check_entry,
    read_traffic_matrix,
)
from testbed.measure.series import Counts, Series
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Direction
from topologies.routing import least_delay_routes

THREE = load("three_city").scaled(0.01)
ADDRESSES = {"AMS": "10.0.0.1", "FRA": "10.0.0.2", "LON": "10.0.0.3"}
MTU = 9000


def planned(*entries: Entry) -> tuple[PlannedFlow, ...]:
    return plan_flows(entries, ADDRESSES, MTU, seed=1, rate_scale=0.01)


def test_rates_are_those_of_the_real_network_and_times_are_not_scaled() -> None:
    entry = BackgroundFlow(
        "AMS", "LON", "udp", 2000.0, start_s=1.0, stop_s=9.0, on_s=2.0, off_s=3.0
    )
    (flow,) = planned(entry)
    assert flow.end.rate_mbps == pytest.approx(20.0)
    assert (flow.end.start_s, flow.end.stop_s, flow.end.on_s, flow.end.off_s) == (
        1.0,
        9.0,
        2.0,
        3.0,
    )
    assert flow.end.datagram_bytes == 9000 - 20 - 8
    assert flow.end.address == "10.0.0.3"


def test_both_islands_are_told_of_a_flow_and_two_between_the_same_sites_differ() -> None:
    flows = planned(BackgroundFlow("AMS", "LON"), BackgroundFlow("AMS", "LON"))
    ends = ends_by_site(flows)
    assert sorted(ends) == ["AMS", "LON"]
    assert [end.role for end in ends["LON"]] == ["receive", "receive"]
    assert len({end.flow for end in ends["AMS"]}) == len({end.port for end in ends["AMS"]}) == 2


def test_a_tenants_ring_sends_a_part_to_the_next_in_each_of_its_steps() -> None:
    flows = planned(TenantJob(("LON", "AMS", "FRA"), message_mb=30.0, compute_s=0.5))
    assert [(flow.source, flow.target) for flow in flows] == [
        ("LON", "AMS"), ("AMS", "FRA"), ("FRA", "LON"),
    ]  # fmt: skip
    for flow, feeder in zip(flows, (flows[2], flows[0], flows[1]), strict=True):
        assert flow.end.fed_by == feeder.name
        assert flow.end.steps == 4  # 2(n-1)
        assert flow.end.step_bytes == 100_000  # 30 MB x 0.01 / 3
        assert feeder.target == flow.source


def test_the_commands_hold_what_the_islands_read() -> None:
    found = commands(planned(BackgroundFlow("AMS", "LON", "tcp", 100.0)), "/tmp/begin", 60.0)
    assert sorted(found) == ["AMS", "LON"]
    assert "--limit-s 60 --flows '[{" in found["AMS"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (BackgroundFlow("AMS", "NYC"), "no site 'NYC' in three_city; sites are AMS, FRA, LON"),
        (BackgroundFlow("AMS", "AMS"), "AMS would send to itself"),
        (BackgroundFlow("AMS", "LON", "udp"), "UDP has no pace of its own"),
        (BackgroundFlow("AMS", "LON", start_s=3.0, stop_s=2.0), "stop_s: 2 is not after"),
        (BackgroundFlow("AMS", "LON", on_s=1.0), "on_s and off_s go together"),
        (BackgroundFlow("AMS", "LON", pattern="exponential"), "pattern: exponential without on_s"),
        (BackgroundFlow("AMS", "LON", "udp", 20_000.0), "more than AMS's port carries; give at mo"),
        (TenantJob(("AMS", "LON", "AMS"), 1.0), "AMS would send to itself; name different sites"),
    ],
)
def test_what_the_network_cannot_have_is_refused(entry: Entry, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        check_entry(entry, THREE)


def test_a_traffic_matrix_is_a_flow_for_each_rate_above_zero(tmp_path: Path) -> None:
    file = tmp_path / "offered.csv"
    file.write_text(
        "source,target,rate_mbps,protocol\nAMS,LON,100,\nLON,AMS,0,tcp\nFRA,LON,5.5,udp\n"
    )
    assert read_traffic_matrix(file, THREE) == (
        BackgroundFlow("AMS", "LON", "tcp", 100.0),
        BackgroundFlow("FRA", "LON", "udp", 5.5),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ":1: no column source; the columns are source, target, rate_mbps[, protocol]"),
        ("AMS,LON,1\n", ":1: unknown column 'AMS'; the columns are"),
        ("source,target,rate_mbps\n", ":1: nothing below the columns"),
        ("source,target,mbps\nAMS,LON,1\n", ":1: unknown column 'mbps'"),
        ("source,target\nAMS,LON\n", ":1: no column rate_mbps"),
        ("source,target,rate_mbps,rate_mbps\nAMS,LON,1,2\n", ":1: more than one column rate_mbps"),
        ("source,target,rate_mbps,colour\nAMS,LON,1,red\n", ":1: unknown column 'colour'"),
        ("source,target,rate_mbps\n\n# mine\nAMS,LON,1\nAMS,NYC,1\n", ":5: no site 'NYC'"),
        ("source,target,rate_mbps\nAMS,AMS,1\n", ":2: AMS would send to itself"),
        (
            "source,target,rate_mbps\nAMS,LON,fast\n",
            ":2: rate_mbps: 'fast' is no rate; give Mbit",
        ),
        ("source,target,rate_mbps\nAMS,LON,-1\n", ":2: rate_mbps: '-1'"),
        ("source,target,rate_mbps\nAMS,LON,1e-300\n", ":2: rate_mbps: '1e-300'"),
        ("source,target,rate_mbps\nAMS,LON\n", ":2: 2 values for 3 columns"),
        ("source,target,rate_mbps\nAMS,LON,1,tcp\n", ":2: 4 values for 3 columns"),
        ("source,target,rate_mbps,protocol\nAMS,LON,1,sctp\n", ":2: protocol: 'sctp'"),
        ("source,target,rate_mbps\n" + "x" * 200_000 + ",LON,1\n", ":2: field larger than"),
    ],
)
def test_a_mistake_in_a_traffic_matrix_has_its_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "offered.csv"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        read_traffic_matrix(file, THREE)
    assert f"offered.csv{reason}" in str(refused.value)


def test_a_matrix_is_read_as_spreadsheets_write_it(tmp_path: Path) -> None:
    file = tmp_path / "offered.csv"
    text = "\ufeffsource, target, rate_mbps\r\nAMS, AMS, 0\r\nAMS, LON, 100\r\n,,\r\n"
    file.write_bytes(text.encode())
    assert read_traffic_matrix(file, THREE) == (BackgroundFlow("AMS", "LON", "tcp", 100.0),)


def test_a_matrix_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_traffic_matrix(tmp_path / "none.csv", THREE)


# --- what it puts on the links -------------------------------------------------------------------


def series(*samples: tuple[float, int]) -> Series:
    made = Series()
    for time_s, count in samples:
        made.append(time_s, Counts(count, count // 8972, 0))
    return made


def steady(datagram_bytes: int = 0) -> FlowHistory:
    """A flow of a million bytes a second for ten seconds, received half a second later."""
    sent = series((0.0, 0), (10.0, 10_000_000))
    received = series((0.0, 0), (0.5, 0), (10.5, 10_000_000))
    return FlowHistory("AMS", "LON", datagram_bytes, sent, received)


def test_a_tcp_flow_loads_every_direction_of_its_way_and_answers_the_way_back() -> None:
    routes = least_delay_routes(THREE)
    found = background_load([steady()], routes, MTU, 2.0, 6.0)
    way = routes.directions("AMS", "LON")
    assert set(found) == {*way, *routes.directions("LON", "AMS")}
    for direction in way:
        assert found[direction].expected.payload == pytest.approx(4_000_000, rel=1e-6)
        segments = -(-4_000_000 // 8948)
        assert found[direction].expected.headers == segments * 66
    back = found[Direction.up("LON")].expected
    assert (back.payload, back.acknowledgements) == (0, 66 * -(-segments // 2))


def test_the_extremes_are_what_must_and_what_can_have_passed() -> None:
    flow = FlowHistory(
        "AMS", "LON", 0,
        series((0.0, 0), (1.0, 100), (2.0, 200), (3.0, 300), (4.0, 400)),
        series((0.0, 0), (1.0, 50), (2.0, 150), (3.0, 250), (4.0, 350)),
    )  # fmt: skip
    # Sent by the report after the start, 100, was on its way before; received at the end, 250.
    assert extremes(flow, 1.0, 3.0) == (250 - 100, 300 - 50)
    assert extremes(flow, 1.5, 3.5) == (250 - 200, 400 - 50)


def test_a_flow_that_loses_half_says_so_by_its_least() -> None:
    flow = FlowHistory("AMS", "LON", 0, series((0, 0), (4, 800)), series((0, 0), (4, 400)))
    assert extremes(flow, 0.0, 4.0) == (400, 800)


def test_counters_see_less_payload_in_udp_whose_headers_are_shorter() -> None:
    # Counters take 66 bytes off each frame; UDP over IPv4 over Ethernet has 8 + 20 + 14.
    routes = least_delay_routes(THREE)
    flow = FlowHistory("AMS", "LON", 8972, series((0, 0), (1, 8_972_000)), series((0, 0)))
    found = background_load([flow], routes, MTU, 0.0, 100.0)
    one = found[Direction.up("AMS")].expected
    assert one.payload == pytest.approx(1000 * (8972 - 24))
    assert one.on_wire == pytest.approx(1000 * (8972 + 42))
    assert Direction.up("LON") not in found


def test_a_counter_that_stood_still_does_not_grow_before_it_moved() -> None:
    flow = FlowHistory("AMS", "LON", 0)
    flow.append(flow.sent, 0.5, 1.0, Counts(100, 0, 0))
    flow.append(flow.sent, 9.5, 10.0, Counts(300, 0, 0))
    assert flow.sent.between(1.0, 9.5).bytes == 0
    assert flow.sent.between(9.5, 10.0).bytes == 200
    assert active_s(flow.sent) == pytest.approx(1.0)


def reported(time_s: float, **row: Any) -> str:
    return json.dumps({"event": "traffic", "time": time_s, "before": time_s - 0.5, "flows": [row]})


def test_reports_become_rows_of_the_record_and_a_summary(tmp_path: Path) -> None:
    flows = planned(BackgroundFlow("AMS", "LON", "udp", 100.0))
    name = flows[0].name
    background = Background(flows, least_delay_routes(THREE), MTU, tmp_path / "traffic.jsonl")
    background.take("AMS", '{"event": "ready", "time": 0}')
    background.take("AMS", "no event")
    background.take("AMS", reported(1.0, flow=name, side="sent", bytes=200_000, packets=20))
    background.take(
        "LON",
        reported(1.0, flow=name, side="received", bytes=150_000, packets=15, delay_s=0.3),
    )
    rows = [json.loads(line) for line in (tmp_path / "traffic.jsonl").read_text().splitlines()]
    assert [(row["site"], row["side"], row["bytes"]) for row in rows] == [
        ("AMS", "sent", 200_000),
        ("LON", "received", 150_000),
    ]
    (row,) = background.summary()
    assert row["lost_bytes"] == 50_000
    assert row["lost_pct"] == pytest.approx(25.0)
    assert row["delay_ms"] == pytest.approx(20.0)
    assert row["rate_mbps"] == pytest.approx(8 * 150_000 / 0.5 / 1e6)
    assert row["sent_mbps"] == pytest.approx(8 * 200_000 / 0.5 / 1e6)
    assert background.ready == {"AMS"}


def test_a_flow_that_sent_nothing_has_a_row_without_rates() -> None:
    (flow,) = planned(BackgroundFlow("AMS", "LON"))
    row = flow_summary(flow, {}, {}, 0.0, 0.0)
    assert (row["sent_bytes"], row["rate_mbps"], row["lost_pct"]) == (0, None, None)
