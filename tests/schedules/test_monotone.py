"""What must not matter to a plan, and what may only help it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.capabilities import CAPABILITY_NAMES
from schedules.solution import OBJECTIVES
from tests.schedules.small_networks import networks, problem, solved
from topologies.model import DirectionSpec, Link, Topology

some = settings(max_examples=20, deadline=None, derandomize=True)
SLACK = 2e-6  # plans are proved to a millionth


def worth(topology: Topology, capability: str, objective: str, latency: bool) -> float:
    """Return how good the best plan is, more being better."""
    found = solved(problem(topology, capability, objective, latency=latency))
    assert found.optimal
    return 1 / found.value if objective == "mean" else found.value


def renamed(topology: Topology) -> Topology:
    """Return the same network with site codes in the opposite order."""
    new = dict(zip(topology.codes, reversed(topology.codes), strict=True))
    return replace(
        topology,
        sites=tuple(replace(site, code=new[site.code]) for site in topology.sites),
        links=tuple(replace(link, a=new[link.a], b=new[link.b]) for link in topology.links),
        access={new[code]: spec for code, spec in topology.access.items()},
    )


def widened(topology: Topology, number: int, factor: float) -> Topology:
    """Return the network with more rate in one direction of a link or at one access port."""

    def wider(spec: DirectionSpec) -> DirectionSpec:
        return replace(spec, rate_mbps=spec.rate_mbps * factor)

    def link(place: int, known: Link) -> Link:
        if place == number // 2 and number % 2:
            return replace(known, forward=wider(known.forward))
        return replace(known, backward=wider(known.backward)) if place == number // 2 else known

    links = tuple(link(place, known) for place, known in enumerate(topology.links))
    at = number - 2 * len(links)
    access = {
        code: wider(spec) if place == at else spec
        for place, (code, spec) in enumerate(sorted(topology.access.items()))
    }
    return replace(topology, links=links, access=access)


@pytest.mark.parametrize("objective", OBJECTIVES)
@some
@given(topology=networks(4, 6), capability=st.sampled_from(CAPABILITY_NAMES), latency=st.booleans())
def test_names_of_sites_change_no_value(
    objective: str, topology: Topology, capability: str, latency: bool
) -> None:
    value = worth(topology, capability, objective, latency)
    assert worth(renamed(topology), capability, objective, latency) == pytest.approx(
        value, rel=SLACK
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(some, max_examples=10)
@given(topology=networks(4, 6), latency=st.booleans())
def test_more_capability_is_never_slower(objective: str, topology: Topology, latency: bool) -> None:
    none, copies, sums, both = (
        worth(topology, name, objective, latency) for name in CAPABILITY_NAMES
    )
    assert none <= min(copies, sums) * (1 + SLACK)
    assert max(copies, sums) <= both * (1 + SLACK)


@pytest.mark.parametrize("objective", OBJECTIVES)
@some
@given(
    topology=networks(4, 6),
    capability=st.sampled_from(CAPABILITY_NAMES),
    latency=st.booleans(),
    data=st.data(),
)
def test_more_capacity_is_never_slower(
    objective: str, topology: Topology, capability: str, latency: bool, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, 2 * len(topology.links) + len(topology.codes) - 1))
    factor = data.draw(st.sampled_from([1.1, 2.0, 10.0]))
    before = worth(topology, capability, objective, latency)
    after = worth(widened(topology, number, factor), capability, objective, latency)
    assert before <= after * (1 + SLACK)
