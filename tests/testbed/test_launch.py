"""What is said before a run begins."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from testbed.doctor import Report
from testbed.launch import warn_of_load
from testbed.order import Order
from tests.doctor.machines import BARE_KERNEL
from topologies.files import load

ORDER = Order(
    action="train",
    run_id="a",
    topology="nine_city",
    record_directory="runs/a",
    rate_scale=0.01,
    datapath="userspace",
    link_backend="linkd",
)


def said_of(rate_scale: float) -> str:
    output = io.StringIO()
    console = Console(file=output, width=200)
    report = Report(BARE_KERNEL, (), "userspace", "linkd")  # two cores
    warn_of_load(replace(ORDER, rate_scale=rate_scale), load("nine_city"), report, console)
    return output.getvalue()


def test_nine_cities_at_100_mbps_fit_two_cores_without_a_word() -> None:
    # 22 directions of 100 Mbit/s and 18 of access ports in packets of 9,000 bytes, and half as many
    # answers, are 83,333 packet-hops/s; two cores carry 120,000.
    assert said_of(0.01) == ""


@pytest.mark.parametrize(("rate_scale", "demand"), [(0.1, "833,333"), (1.0, "8,333,333")])
def test_rates_whose_sum_two_cores_cannot_carry_are_warned_of(
    rate_scale: float, demand: str
) -> None:
    warning = said_of(rate_scale)
    assert warning.startswith("warning: ")
    assert f"needs {demand} packet-hops/s" in warning
    assert "--rate-scale 0.014 or less" in warning
