"""Accelerators with limits: what fits is laid out, what cannot is told before anything is built."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.accelerator.process import Limits
from testbed.benching.drawing import Drawn, plan_on_paper
from testbed.innetwork.layout import Layout
from testbed.innetwork.limits import alike, within_limits
from topologies.errors import UserError
from topologies.files import load

KINDS = ("aggregation", "innetwork")
TOPOLOGY = load("three_city").scaled(0.01)


def drawn(**limits: float) -> Drawn:
    sites = alike(TOPOLOGY.codes, limits)
    return plan_on_paper(TOPOLOGY, KINDS, sites)


def slots_taken(layouts: list[Layout]) -> Counter[str]:
    taken = Counter[str]()
    for layout in layouts:
        for site, configs in layout.accelerators.items():
            taken[site] += sum(config.window for config in configs)
    return taken


@settings(max_examples=40, deadline=None)
@given(slots=st.integers(4, 2000))
def test_windows_fit_into_the_slots_and_are_one_number_to_all(slots: int) -> None:
    layouts = within_limits(UNLIMITED, alike(TOPOLOGY.codes, {"slots": slots}))
    assert max(slots_taken(layouts).values()) <= slots
    for layout in layouts:
        told = {config.window for one in layout.accelerators.values() for config in one}
        assert told == {layout.group.window}
        assert layout.group.window >= 1


UNLIMITED = [one for of_kind in drawn().layouts.values() for one in of_kind]


def test_windows_stay_where_there_is_room() -> None:
    assert within_limits(UNLIMITED, alike(TOPOLOGY.codes, {"slots": 65536})) == UNLIMITED


def test_fewer_slots_than_trees_are_refused_by_the_options_name() -> None:
    # Three cities: at each site a tree of innetwork, and one of aggregation at least.
    with pytest.raises(UserError, match=r"--accelerator-slots: \d trees meet at .* 1 slot"):
        drawn(slots=1)


def test_too_many_children_are_refused_by_the_options_name() -> None:
    limits = {site: Limits(fan_in=1) for site in TOPOLOGY.codes}
    with pytest.raises(UserError, match=r"--accelerator-fan-in: \d streams of .* meet at"):
        within_limits(UNLIMITED, limits)


def test_a_fan_in_of_one_sums_nothing() -> None:
    with pytest.raises(UserError, match=r"--accelerator-fan-in: a single stream"):
        drawn(fan_in=1)


def test_a_plan_that_splits_messages_is_laid_out_part_by_part() -> None:
    topology = load("nine_city").scaled(0.01)
    sites = alike(["NYC"], {})
    made = plan_on_paper(topology, ("innetwork",), sites)
    parts = made.layouts["innetwork"]
    assert len(parts) > 1
    assert sum(part.group.share for part in parts) == pytest.approx(1)
    for part in parts:
        assert set(part.accelerators) == {"NYC"}
        assert len(part.group.trees) == 1


def test_slots_are_those_of_all_parts_together() -> None:
    topology = load("nine_city").scaled(0.01)
    parts = plan_on_paper(topology, ("innetwork",), alike(["NYC"], {}))
    count = len(parts.layouts["innetwork"])
    few = alike(["NYC"], {"slots": count - 1})
    with pytest.raises(UserError, match=f"--accelerator-slots: {count} trees meet at NYC"):
        plan_on_paper(topology, ("innetwork",), few)
