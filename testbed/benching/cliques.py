"""The plan of one clique of all islands for each collective, and what it must put on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from schedules.capabilities import AGGREGATION, INNETWORK, Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.plan import Plan, PlannedRound
from schedules.planner import default_watch, plan_problem
from schedules.problem import Problem
from schedules.solution import EXCHANGE_OBJECTIVE
from testbed.experiment.rounds import as_run
from testbed.measure.forecast import header_share
from testbed.measure.planned import ACCELERATOR_SUFFIX
from topologies.errors import UserError
from topologies.model import Direction, Topology

PLANNED_BYTES = 1e6  # what a plan is made for; transfer and load grow in proportion


@dataclass(frozen=True)
class Planned:
    """A collective of all islands.

    Attributes:
        plan: as the planner gave it.
        header_share: bytes of headers for each byte of payload, in packets that fill the MTU.
    """

    plan: Plan
    header_share: float

    @property
    def round(self) -> PlannedRound:
        """The plan's one round."""
        return self.plan.rounds[0]

    def transfer_s(self, message_bytes: float) -> float:
        """Return the time of the busiest direction, headers counted."""
        share = message_bytes / PLANNED_BYTES * (1 + self.header_share)
        return self.round.predicted.transfer_s * share

    def bound_s(self, message_bytes: float) -> float:
        """Return the least time: the busiest direction, headers counted, and the latency."""
        return self.transfer_s(message_bytes) + self.round.predicted.latency_s

    def load_bytes(self, message_bytes: float) -> dict[Direction, float]:
        """Return what every loaded link direction must carry, headers counted."""
        factor = message_bytes * (1 + self.header_share)
        loads = self.round.predicted.load.items()
        return {
            Direction.parse(way): load * factor
            for way, load in loads
            if not way.endswith(ACCELERATOR_SUFFIX)
        }

    @property
    def traversals(self) -> float:
        """Messages times WAN links crossed."""
        return self.round.predicted.traversals


def plan_cliques(
    topology: Topology, capabilities: Capabilities, kinds: tuple[str, ...]
) -> dict[str, Planned]:
    """Return the plan of one clique of all islands for each kind.

    Raises:
        UserError: the capabilities do not permit a kind, or it cannot be planned.
    """
    return {
        kind: Planned(
            _plan_everybody(topology, capabilities, kind), header_share(kind, topology.mtu_bytes)
        )
        for kind in kinds
    }


def _plan_everybody(topology: Topology, capabilities: Capabilities, kind: str) -> Plan:
    everybody = Constraints(min_clique=len(topology.codes))
    network = Network.of(topology)
    problem = Problem(
        network, capabilities, EXCHANGE_OBJECTIVE, kind, PLANNED_BYTES, everybody, True
    )
    planned = plan_problem(problem, default_watch(problem))
    if len(planned.rounds) != 1:
        raise UserError(f"{kind}: all islands in one clique need one round")
    return replace(planned, rounds=(as_run(problem, planned.rounds[0], capabilities.max_groups),))


@cache
def _plans_format() -> TypeAdapter[dict[str, Planned]]:
    return TypeAdapter(dict[str, Planned])


def to_data(planned: Mapping[str, Planned]) -> dict[str, Any]:
    """Return the plans of all kinds as plain data that `from_data` reads back."""
    data: dict[str, Any] = _plans_format().dump_python(dict(planned), mode="json")
    return data


def from_data(data: Mapping[str, Any]) -> dict[str, Planned]:
    """Return the plans that `to_data` wrote."""
    return _plans_format().validate_python(data)


def ring_order(planned: Mapping[str, Planned]) -> tuple[str, ...]:
    """Return the order of the best ring that any of the plans shows."""
    return next(iter(planned.values())).plan.ring.order


def needs_accelerators(kinds: tuple[str, ...]) -> bool:
    """Whether any of these kinds is summed in the network."""
    return bool({AGGREGATION, INNETWORK} & set(kinds))
