"""Random networks of a few islands for the tests of plans, and how to solve them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from schedules.capabilities import Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.problem import Problem
from schedules.solution import Solution
from schedules.solve import solve
from schedules.watch import Watch
from topologies.model import DirectionSpec, Link, Site, Topology

MEGABYTE = 1e6
CODES = ("ANK", "BOM", "CAI", "DEL", "EWR", "FUK")
RATES_MBPS = (100.0, 200.0, 300.0, 500.0)
NANOSECONDS_PER_MS = 1_000_000


@st.composite
def networks(draw: st.DrawFn, least: int = 4, most: int = 5) -> Topology:
    """Connected, each direction with a rate and delay of its own, no two routes equally long.

    The last twelve bits of each delay are a power of two that no other link has, so that the sums
    along two different paths always differ.
    """
    codes = CODES[: draw(st.integers(least, most))]
    joined = {(draw(st.integers(0, b - 1)), b) for b in range(1, len(codes))}
    pairs = [(a, b) for b in range(len(codes)) for a in range(b)]
    joined |= set(draw(st.lists(st.sampled_from(pairs), max_size=3)))
    links = []
    for number, (a, b) in enumerate(sorted(joined)):
        specs = [
            DirectionSpec(
                rate_mbps=draw(st.sampled_from(RATES_MBPS)),
                one_way_delay_ms=(draw(st.integers(0, 20)) * 4096 + 2**number) / NANOSECONDS_PER_MS,
            )
            for _ in range(2)
        ]
        links.append(Link(codes[a], codes[b], *specs))
    access = {
        code: DirectionSpec(draw(st.sampled_from(RATES_MBPS)), draw(st.sampled_from([0.0, 0.25])))
        for code in codes
    }
    return network(codes, links, access)


def network(
    codes: tuple[str, ...], links: list[Link], access: dict[str, DirectionSpec]
) -> Topology:
    sites = tuple(Site(code, code, 0.0, 0.0) for code in sorted(codes))
    return Topology("random", sites, tuple(links), access, source="drawn", licence="none")


def uniform(topology: Topology, rate_mbps: float = 100.0, delay_ms: float = 1.0) -> Topology:
    """Return a network of the same shape with one rate and one delay everywhere."""
    spec = DirectionSpec(rate_mbps, delay_ms)
    return replace(
        topology,
        links=tuple(replace(link, forward=spec, backward=spec) for link in topology.links),
        access={code: DirectionSpec(rate_mbps, 0.0) for code in topology.codes},
    )


def problem(
    topology: Topology,
    capability: str | Capabilities,
    objective: str,
    collective: str | None = None,
    latency: bool = False,
    message_bytes: float = MEGABYTE,
) -> Problem:
    known = Capabilities.parse(capability) if isinstance(capability, str) else capability
    return Problem(
        Network.of(topology), known, objective, collective, message_bytes, Constraints(), latency
    )


def solved(wanted: Problem) -> Solution:
    found = solve(wanted, Watch())
    assert found is not None
    return found.solution


def in_units(wanted: Problem, solution: Solution) -> float:
    """Return a value with the time of one message over the slowest direction as unit of time."""
    unit_s = wanted.clock.unit_s
    return solution.value / unit_s if wanted.objective == "mean" else solution.value * unit_s
