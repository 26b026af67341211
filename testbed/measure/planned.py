"""What a planned round must put on every link direction, and the least time it can take. Pure.

Kinds over TCP (`ring`, `exchange`) put flows from island to island on the routes between them;
their acknowledgements take the way back. Kinds that work with the network put whole messages on the
links of their trees; what those loads are, the plan says (`schedules.cost`), in messages a
direction. Both carry headers, which the bound counts too: no method can leave them out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from controller.fabric import accelerator_end
from schedules.capabilities import EXCHANGE, RING
from schedules.plan import PlannedRound
from testbed.measure.forecast import exchange_pace_mbps, forecast, header_share, slowest_mbps
from testbed.measure.predict import (
    ExpectedBytes,
    Hop,
    TimeBound,
    expected_bytes,
    ring_hops,
)
from topologies.model import Direction, Topology
from topologies.routing import Routes
from workloads.collectives.ring import expected_ring_payload_bytes

TCP_KINDS = (RING, EXCHANGE)
ACCELERATOR_SUFFIX = accelerator_end("")  # a cable in the site, no link
BITS_PER_MBIT = 1e6
ELEMENT_BYTES = 4


@dataclass(frozen=True)
class RoundPlan:
    """One of a schedule's rounds, as measurements are set against it.

    Attributes:
        kind: of its collective.
        cliques: site codes; islands in none of them are idle.
        expected: what it puts on each direction.
        bound: the least it can take.
        predicted_s: what it should take (`testbed.measure.forecast`), from the second time on.
        first_predicted_s: what it should take the first time its cliques meet.
        clique_predicted_s: what each clique should take by itself, in the order of `cliques`.
        pace_mbps: what each connection of an exchange sends at most; None for other kinds.
        statement: what the prediction counts, in one sentence.
    """

    kind: str
    cliques: tuple[tuple[str, ...], ...]
    expected: Mapping[Direction, ExpectedBytes]
    bound: TimeBound
    predicted_s: float
    first_predicted_s: float
    clique_predicted_s: tuple[float, ...] = ()
    pace_mbps: float | None = None
    statement: str = ""


def round_plan(
    planned: PlannedRound, routes: Routes, message_bytes: int, parts: int = 1
) -> RoundPlan:
    """Return what a round must put on the emulated network and how long it cannot help taking.

    Args:
        planned: the round.
        routes: of the emulated network, rates scaled.
        message_bytes: what an island contributes.
        parts: in how many messages, one after the other, each of which takes its way anew.
    """
    found = forecast(planned, routes, _part_bytes(message_bytes, parts))
    is_paced = planned.collective == EXCHANGE
    return RoundPlan(
        kind=planned.collective,
        cliques=planned.cliques,
        expected=expected_of_round(planned, routes, message_bytes),
        bound=round_bound(planned, routes.topology, message_bytes),
        predicted_s=parts * found.predicted_s,
        first_predicted_s=found.first_s + (parts - 1) * found.predicted_s,
        clique_predicted_s=tuple(parts * one.predicted_s for one in found.cliques),
        pace_mbps=exchange_pace_mbps(planned, routes.topology) if is_paced else None,
        statement=found.statement,
    )


def _part_bytes(message_bytes: int, parts: int) -> int:
    """Return the length of the largest of some equal parts, in whole elements."""
    return math.ceil(message_bytes / parts / ELEMENT_BYTES) * ELEMENT_BYTES


def round_bound(planned: PlannedRound, topology: Topology, message_bytes: int) -> TimeBound:
    """Return the time of a round's busiest direction, headers counted, and its latency."""
    share = header_share(planned.collective, topology.mtu_bytes)
    message_s = 8 * message_bytes / (slowest_mbps(topology) * BITS_PER_MBIT)
    return TimeBound(
        planned.predicted.transfer_units * message_s * (1 + share),
        planned.predicted.latency_s,
        f"{planned.predicted.transfer_units:.3g} x M/C with headers on {planned.predicted.busiest}"
        + (", plus 2(N-1) sequential ring steps" if planned.collective == RING else ", plus delay"),
    )


def expected_of_round(
    planned: PlannedRound, routes: Routes, message_bytes: int
) -> dict[Direction, ExpectedBytes]:
    """Return what one run of a round puts on every direction of the network."""
    if planned.collective in TCP_KINDS:
        payload = round_payload(planned.collective, planned.cliques, message_bytes)
        return expected_bytes(payload, routes, routes.topology.mtu_bytes)
    share = header_share(planned.collective, routes.topology.mtu_bytes)
    loads = planned.predicted.load
    return {
        way: ExpectedBytes(
            payload=loads.get(str(way), 0.0) * message_bytes,
            headers=loads.get(str(way), 0.0) * message_bytes * share,
        )
        for way in routes.topology.directions()
    }


def round_payload(
    kind: str, cliques: Sequence[Sequence[str]], message_bytes: int
) -> dict[Hop, float]:
    """Return the bytes that each TCP flow of a round carries, by source and target island."""
    of_clique = ring_payload if kind == RING else exchange_payload
    return {
        hop: amount
        for clique in cliques
        for hop, amount in of_clique(clique, message_bytes).items()
    }


def ring_payload(clique: Sequence[str], message_bytes: int) -> dict[Hop, float]:
    """Return what gloo's ring sends along each hop, chunk by chunk.

    Gloo sends from each rank to the one before, so the first site has the ring's last rank.
    """
    members = len(clique)
    return {
        hop: float(expected_ring_payload_bytes(message_bytes, members, members - 1 - place))
        for place, hop in enumerate(ring_hops(clique))
    }


def exchange_payload(clique: Sequence[str], message_bytes: int) -> dict[Hop, float]:
    """Return what each member sends to each other."""
    return {(a, b): float(message_bytes) for a in clique for b in clique if a != b}


def total_expected(
    plans: Sequence[RoundPlan], runs: Mapping[int, int]
) -> dict[Direction, ExpectedBytes]:
    """Return what some rounds put on every direction, each run so many times."""
    ways = {way for plan in plans for way in plan.expected}
    return {
        way: reduce(
            add,
            (plan.expected[way].times(runs.get(n, 0)) for n, plan in enumerate(plans)),
            ExpectedBytes(),
        )
        for way in sorted(ways)
    }
