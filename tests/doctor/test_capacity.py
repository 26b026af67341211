from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.doctor.capacity import Capacity, carrying_capacity, hops_per_core, two_digits_below
from topologies.model import Access, DirectionSpec, Link, Site, Topology


def pair(wan_mbps: float, access_mbps: float, mtu_bytes: int = 9000) -> Topology:
    spec = DirectionSpec(rate_mbps=wan_mbps, one_way_delay_ms=1.0)
    return Topology(
        name="pair",
        sites=(Site("AAA", "A", 0.0, 0.0), Site("BBB", "B", 0.0, 0.0)),
        links=(Link("AAA", "BBB", spec, spec),),
        access={"AAA": Access(access_mbps), "BBB": Access(access_mbps)},
        source="made for this test",
        licence="CC0-1.0",
        mtu_bytes=mtu_bytes,
    )


def test_demand_is_every_direction_full_of_mtu_sized_packets_and_half_as_many_answers() -> None:
    # 72 Mbit/s in packets of 9,000 bytes are 1,000 a second; two ways over the link and two ways
    # over two access ports are six directions; 6,000 data packets with 3,000 answers.
    capacity = carrying_capacity(pair(72, 72), 2, "userspace", "linkd")
    assert capacity.demand_packet_hops_per_s == pytest.approx(9000)


def test_an_access_port_carries_no_more_than_its_site_can_send_on() -> None:
    wide = carrying_capacity(pair(72, 7200), 2, "userspace", "linkd")
    assert wide.demand_packet_hops_per_s == pytest.approx(9000)
    narrow = carrying_capacity(pair(72, 36), 2, "userspace", "linkd")
    assert narrow.demand_packet_hops_per_s == pytest.approx(1.5 * (2 * 1000 + 4 * 500))


def test_smaller_packets_ask_for_more() -> None:
    jumbo = carrying_capacity(pair(100, 100, 9000), 2, "userspace", "linkd")
    plain = carrying_capacity(pair(100, 100, 1500), 2, "userspace", "linkd")
    assert plain.demand_packet_hops_per_s == pytest.approx(6 * jumbo.demand_packet_hops_per_s)


def test_two_cores_carry_the_measured_120_000_packet_hops_in_user_space() -> None:
    capacity = carrying_capacity(pair(72, 72), 2, "userspace", "linkd")
    assert capacity.ceiling_packet_hops_per_s == 120_000


def test_the_kernel_carries_more_than_user_space_and_linkd_costs_some_of_it() -> None:
    user, mixed, kernel = (
        hops_per_core("userspace", "linkd"),
        hops_per_core("kernel", "linkd"),
        hops_per_core("kernel", "netem"),
    )
    assert user < mixed < kernel


def test_what_fits_gives_no_warning() -> None:
    assert Capacity(120_000, 120_000).warning(0.01) is None


def test_the_warning_names_a_rate_scale_that_fits() -> None:
    text = Capacity(demand_packet_hops_per_s=360_000, ceiling_packet_hops_per_s=120_000).warning(1)
    assert text is not None
    assert "360,000" in text
    assert "120,000" in text
    assert "--rate-scale 0.33 or less" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0399, "0.039"), (1.0, "1.0"), (12.7, "12"), (347.0, "340"), (0.1, "0.10")],
)
def test_two_digits_are_kept_rounded_down(value: float, text: str) -> None:
    assert two_digits_below(value) == text


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_two_digits_never_exceed_the_value_nor_lose_a_tenth(value: float) -> None:
    written = float(two_digits_below(value))
    assert 0.9 * value <= written <= value * (1 + 1e-9)
