"""Measures all links of a standing WAN at their own two ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.calibration.figures import (
    Measured,
    arrival_rate_mbps,
    offered_rate_mbps,
    one_way_ms,
)
from testbed.calibration.plan import (
    QUICK,
    THOROUGH,
    Effort,
    Train,
    burst_groups,
    burst_train,
    delay_trains,
    longest_way_s,
)
from testbed.calibration.probe import Arrival, LinkEnd, Prober, Sent, in_own_thread
from testbed.calibration.result import Calibration, DirectionResult, judge
from testbed.calibration.tolerance import QUICK_TOLERANCE, THOROUGH_TOLERANCE, Tolerance
from testbed.emulation.emulation import Emulation
from testbed.emulation.network import Network
from testbed.emulation.plan import NodeEnd
from testbed.links.backend import LinkBackend
from topologies.model import ISLAND_SUFFIX, Direction, DirectionSpec

MARGIN_S = 0.05
ATTEMPTS = 3

Announce = Callable[[str], None]


@dataclass(frozen=True)
class Way:
    """One direction to be measured: what is asked of it and where it begins and ends."""

    direction: Direction
    asked: DirectionSpec
    source: LinkEnd
    target: LinkEnd


@dataclass(frozen=True)
class Rules:
    """How much is measured and how close it has to be."""

    effort: Effort
    tolerance: Tolerance
    mtu_bytes: int


def calibrate(wan: Emulation, thorough: bool = False) -> Calibration:
    """Measure rate, delay and loss of every direction of a standing WAN that carries nothing else.

    What is asked for is taken from the topology, not from the back-end. A direction that is off is
    measured up to twice more, with less load and longer bursts, before that counts. Nothing raises
    for links that are off: call `require_all` on the result.

    Args:
        wan: as it stands, its routes installed or not.
        thorough: measure ten times as much, against tighter tolerances.

    Raises:
        MachineError: packet sockets cannot be opened on the nodes' interfaces.
        RunError: the link back-end is gone.
    """
    started = time.monotonic()
    effort, tolerance = (THOROUGH, THOROUGH_TOLERANCE) if thorough else (QUICK, QUICK_TOLERANCE)
    tolerance = tolerance.with_grain(wan.release_grain_us)
    rules = Rules(effort, tolerance, wan.topology.mtu_bytes)
    results = in_own_thread(lambda: _settle(ways_of(wan), wan.links, rules), wan.realtime)
    return Calibration(results, tolerance, time.monotonic() - started, thorough)


def ways_of(wan: Emulation) -> tuple[Way, ...]:
    """Return every direction of a WAN with its ends, sorted."""
    ends = {}
    for wire in wan.network.wires:
        a, b = _link_end(wan.network, wire.a), _link_end(wan.network, wire.b)
        ends[wire.forward] = (a, b)
        ends[wire.forward.reverse] = (b, a)
    asked = wan.topology.directions()
    return tuple(Way(direction, asked[direction], *ends[direction]) for direction in asked)


def _link_end(network: Network, end: NodeEnd) -> LinkEnd:
    if end.node.endswith(ISLAND_SUFFIX):
        node = network.island(end.node[: -len(ISLAND_SUFFIX)])
    else:
        node = network.switch(end.node)
    return LinkEnd(node.pid, end.interface, end.mac)


def _settle(ways: Sequence[Way], links: LinkBackend, rules: Rules) -> tuple[DirectionResult, ...]:
    results = measure(ways, links, rules)
    patient = replace(rules, effort=rules.effort.with_more_patience())
    for attempt in range(2, ATTEMPTS + 1):
        off = [way for way in ways if results[way.direction].faults]
        if not off:
            break
        again = measure(off, links, patient)
        results |= {way: replace(one, attempts=attempt) for way, one in again.items()}
    return tuple(results.values())


def measure(
    ways: Sequence[Way], links: LinkBackend, rules: Rules
) -> dict[Direction, DirectionResult]:
    """Measure directions once: first all delays and losses, then rates in groups."""
    numbered = dict(enumerate(ways))
    drops_before = _unasked_drops(links)
    with Prober({number: (way.source, way.target) for number, way in numbered.items()}) as prober:
        delays = _measure_delays(prober, numbered, rules)
        rates = _measure_rates(prober, numbered, rules)
    drops = _unasked_drops(links)
    results = {}
    for number, way in numbered.items():
        measured = replace(
            delays[number], rate_mbps=rates[number][0], offered_mbps=rates[number][1]
        )
        dropped = drops[way.direction] - drops_before[way.direction]
        faults = judge(way.asked, measured, dropped, rules.tolerance, len(ways))
        results[way.direction] = DirectionResult(
            way.direction, way.asked, measured, dropped, faults
        )
    return results


def _unasked_drops(links: LinkBackend) -> dict[Direction, int]:
    return {way: one.unasked_drops for way, one in links.counters().items()}


def _measure_delays(prober: Prober, ways: Mapping[int, Way], rules: Rules) -> dict[int, Measured]:
    trains = delay_trains({number: way.asked for number, way in ways.items()}, rules.effort)
    sent = prober.send(trains)
    arrivals = prober.collect(_patience_s(ways, rules), enough=_enough(ways, len(sent)))
    by_number = _by_direction(genuine(sent, arrivals))
    return {
        train.direction: _delays(
            train, by_number.get(train.direction, []), ways[train.direction].asked
        )
        for train in trains
    }


def _delays(train: Train, arrivals: Sequence[Arrival], asked: DirectionSpec) -> Measured:
    times_ms = one_way_ms(arrivals, train.frame_bytes, asked.rate_mbps)
    return Measured(times_ms, train.count, train.count - len(arrivals), None, 0.0)


def genuine(sent: Iterable[Sent], arrivals: Iterable[Arrival]) -> list[Arrival]:
    """Return the first arrival of each frame as it was sent; a wrong bit may forge any mark."""
    due = {(one.direction, one.sequence): one.ns for one in sent}
    first = []
    for one in arrivals:
        key = (one.direction, one.sequence)
        if due.get(key) == one.sent_ns:
            first.append(one)
            del due[key]
    return first


def _enough(ways: Mapping[int, Way], sent: int) -> int | None:
    """After how many arrivals no more are to come; unknown where frames arrive twice."""
    return None if any(way.asked.duplicate_pct > 0 for way in ways.values()) else sent


def _patience_s(ways: Mapping[int, Way], rules: Rules) -> float:
    return MARGIN_S + longest_way_s([way.asked for way in ways.values()], rules.mtu_bytes)


def _measure_rates(
    prober: Prober, ways: Mapping[int, Way], rules: Rules
) -> dict[int, tuple[float | None, float]]:
    """Return for each direction the rate that came out and the rate that was put in."""
    effort = rules.effort
    trains = [burst_train(n, way.asked, rules.mtu_bytes, effort) for n, way in ways.items()]
    sent: list[Sent] = []
    arrivals: list[Arrival] = []
    for group in burst_groups(trains, effort.together_mbps):
        sent += prober.send(group)
        arrivals += prober.collect(0.0)
    enough = _enough(ways, len(sent) - len(arrivals))
    arrivals += prober.collect(_patience_s(ways, rules), enough=enough)
    came, went = _by_direction(arrivals), _sent_by_direction(sent)
    return {train.direction: _rates(train, came, went) for train in trains}


def _rates(
    train: Train, came: Mapping[int, list[Arrival]], went: Mapping[int, list[Sent]]
) -> tuple[float | None, float]:
    times_ns = [one.received_ns for one in came.get(train.direction, ())]
    offered = offered_rate_mbps(went.get(train.direction, ()), train.frame_bytes)
    return arrival_rate_mbps(times_ns, train.frame_bytes), offered


def _by_direction(arrivals: Iterable[Arrival]) -> dict[int, list[Arrival]]:
    grouped: dict[int, list[Arrival]] = {}
    for one in arrivals:
        grouped.setdefault(one.direction, []).append(one)
    return grouped


def _sent_by_direction(sent: Iterable[Sent]) -> dict[int, list[Sent]]:
    grouped: dict[int, list[Sent]] = {}
    for one in sent:
        grouped.setdefault(one.direction, []).append(one)
    return grouped
