"""What a planner is asked: a network, what it can do, an objective and the limits of a round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from schedules.capabilities import Capabilities
from schedules.constraints import Clock, Constraints
from schedules.cost import CostModel
from schedules.network import Network
from schedules.solution import OBJECTIVES
from topologies.errors import UserError
from topologies.model import Topology

MOST_MESSAGE_BYTES = 1e18  # all parameters of all models there are


@dataclass(frozen=True, eq=False)
class Problem:
    """A question to the planner, refused at once where it makes no sense.

    Attributes:
        network: the topology as arrays; shared by problems that differ in the rest only.
        capabilities: what the network offers.
        objective: one of `schedules.solution.OBJECTIVES`.
        collective: the collective of every round; None to choose the best permitted one.
        message_bytes: what an island contributes to one round.
        constraints: limits on every round.
        count_latency: whether latency is part of a round's time.
    """

    network: Network
    capabilities: Capabilities
    objective: str
    collective: str | None
    message_bytes: float
    constraints: Constraints
    count_latency: bool

    def __post_init__(self) -> None:
        topology = self.network.topology
        if self.network.size < 2:
            raise UserError(f"{topology.name} has one island: there is nobody to exchange with")
        if self.objective not in OBJECTIVES:
            raise UserError(f"objective {self.objective!r} is none of {', '.join(OBJECTIVES)}")
        check_message(self.message_bytes)
        self.capabilities.permitted(self.collective)
        self.capabilities.check(topology)
        self.constraints.check(topology)

    def changed(self, **fields: Any) -> Problem:
        """Return the same question with some fields changed."""
        return replace(self, **fields)

    @property
    def topology(self) -> Topology:
        """The network asked about."""
        return self.network.topology

    @property
    def collectives(self) -> tuple[str, ...]:
        """The collectives to choose from."""
        return self.capabilities.permitted(self.collective)

    @cached_property
    def model(self) -> CostModel:
        """The cost model of the network and its capabilities."""
        return CostModel(self.network, self.capabilities)

    @cached_property
    def clock(self) -> Clock:
        """What turns costs into seconds."""
        return Clock.of(self.model, self.message_bytes, self.constraints, self.count_latency)


def check_message(message_bytes: float) -> None:
    """Raise UserError unless there is a message to send, of a size that anything could have."""
    if not 0 < message_bytes <= MOST_MESSAGE_BYTES:
        raise UserError(
            f"message of {message_bytes:g} bytes: it must be above zero, and at most "
            f"{MOST_MESSAGE_BYTES:g}"
        )
