"""The plan: rounds of cliques that repeat, with trees, predictions, bounds and proof; and its JSON.

A plan holds site codes and seconds only, no arrays, so that whoever runs or draws it needs nothing
else of this package. `rounds` are the different rounds, `share` says how often each runs, and
`cycle` is an order of them to repeat. For a plan of one round, or of a mean cycle, the cycle is the
rounds in their order.

In a round of the `ring` collective a clique's codes are in ring order: each sends to the next. A
tree's hops are (parent, child), away from its root: a multicast tree carries copies along them, an
aggregation tree carries sums against them. A tree carries `share` of every message of its clique.

The classes below are the format: reading checks every field against them, and the published JSON
Schema (`schedules.schema`) is made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from schedules.bounds import Bound
from schedules.capabilities import Accelerator, Capabilities, Collective
from schedules.constraints import Constraints
from topologies.errors import UserError

Code = Annotated[str, Field(min_length=1, description="a site's code, such as NYC")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, description="seconds")]
Messages = Annotated[
    float, Field(ge=0, allow_inf_nan=False, description="messages of message_bytes")
]
Units = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False, description="times of one message over the slowest direction"),
]
Share = Annotated[float, Field(gt=0, le=1 + 1e-6, description="a part, at most 1")]
Count = Annotated[int, Field(ge=0)]
Objective = Literal["exchange", "fair", "mean", "consensus"]

_NO_OTHER_FIELDS = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class PlannedAccelerator:
    """An accelerator's limits; null where there is none."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    rate_mbps: Annotated[float, Field(gt=0)] | None
    fan_in: Annotated[int, Field(ge=2)] | None


@dataclass(frozen=True)
class PlannedCapabilities:
    """What the plan relies on; `accelerators` and `multicast_links` null mean everywhere."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    multicast: bool
    aggregation: bool
    accelerators: Mapping[Code, PlannedAccelerator] | None
    max_groups: Count | None
    multicast_links: tuple[tuple[Code, Code], ...] | None

    @classmethod
    def of(cls, capabilities: Capabilities) -> PlannedCapabilities:
        """Write capabilities down."""
        links, sites = capabilities.multicast_links, capabilities.accelerators
        accelerators = None
        if sites is not None:
            accelerators = {
                code: PlannedAccelerator(None if a.rate_mbps == inf else a.rate_mbps, a.fan_in)
                for code, a in sorted(sites.items())
            }
        return cls(
            capabilities.multicast,
            capabilities.aggregation,
            accelerators,
            capabilities.max_groups,
            None if links is None else tuple(sorted(links)),
        )

    def read(self) -> Capabilities:
        """Return the capabilities that `of` wrote down."""
        links, sites = self.multicast_links, self.accelerators
        accelerators = None
        if sites is not None:
            accelerators = {
                code: Accelerator(a.rate_mbps or inf, a.fan_in) for code, a in sites.items()
            }
        return Capabilities(
            self.multicast,
            self.aggregation,
            accelerators,
            self.max_groups,
            None if links is None else frozenset(links),
        )


@dataclass(frozen=True)
class PlannedTree:
    """A tree to install.

    Attributes:
        kind: `multicast` or `aggregation`.
        clique: index of its clique in the round.
        root: site of the tree's root.
        at_island: whether it starts or ends at the root's island, or (`innetwork`) at its switch.
        members: sites of the receiving or sending islands.
        hops: (parent, child) of every link, away from the root.
        sums_at: sites whose accelerator sums streams; empty for multicast.
        share: part of each message that takes this tree.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    kind: Literal["multicast", "aggregation"]
    clique: Count
    root: Code
    at_island: bool
    members: tuple[Code, ...]
    hops: tuple[tuple[Code, Code], ...]
    sums_at: tuple[Code, ...]
    share: Share


@dataclass(frozen=True)
class Predicted:
    """What a round should take and put on the network.

    Attributes:
        transfer_s: time of the busiest direction.
        latency_s: longest one-way path delay on the way.
        compute_s: compute time of the slowest island that takes part.
        round_s: what the plan counts for the round: transfer, latency where it counts, and the
            compute time instead where that is longer.
        transfer_units: transfer in messages over the slowest direction.
        fractional_units: transfer if messages could be split at will among any trees; None for
            collectives without trees or where it was not solved.
        traversals: messages times WAN links crossed.
        pairs: ordered pairs of islands whose contributions meet.
        groups: trees to install.
        busiest: the direction that sets the transfer time.
        load: messages over every direction that carries any.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    transfer_s: Seconds
    latency_s: Seconds
    compute_s: Seconds
    round_s: Seconds
    transfer_units: Units
    fractional_units: Units | None
    traversals: Messages
    pairs: Count
    groups: Count
    busiest: str
    load: Mapping[str, Messages]


@dataclass(frozen=True)
class PlannedRound:
    """Cliques that work at the same time; islands in none of them are idle."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    cliques: tuple[tuple[Code, ...], ...]
    collective: Collective
    trees: tuple[PlannedTree, ...]
    predicted: Predicted
    share: Share


@dataclass(frozen=True)
class RingReference:
    """The best ring of all islands, round after round: what people use today, to compare with.

    Attributes:
        order: each sends to the next, the last to the first.
        transfer_s: time of the busiest direction.
        transfer_units: the same in messages over the slowest direction.
        latency_s: longest chain of the ring's steps.
        round_s: time of the round.
        traversals: messages times WAN links crossed.
        value: what it attains for the plan's objective, in the plan's unit.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    order: tuple[Code, ...]
    transfer_s: Seconds
    transfer_units: Units
    latency_s: Seconds
    round_s: Seconds
    traversals: Messages
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Plan:
    """A schedule for a topology and its capabilities.

    Attributes:
        topology: name of the network.
        capabilities: what the network offers, limits included.
        objective: what was optimized.
        unit: the unit of `value` and `bound`.
        collective: the fixed collective, None when the planner chose.
        message_bytes: what an island contributes to a round.
        unit_s: time of one message over the slowest direction, the unit of `transfer_units`.
        latency_counted: whether latency was part of a round's time.
        constraints: limits every round keeps to.
        rounds: the different rounds.
        cycle: an order of rounds to repeat, by index.
        value: what the plan attains.
        cycle_value: what repeating `cycle` attains; near `value`, whose shares it rounds.
        bound: what no plan can beat.
        optimal: whether `value` is proved to be best.
        gap_pct: how far it may be from the best, in percent.
        stopped_early: whether a time limit or the user ended the search.
        solved_by: how it was found.
        bounds: what any method needs, for comparison.
        ring: the best ring of all islands, for comparison.
        search_s: time the search took; plans are equal whatever it was.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    topology: str
    capabilities: PlannedCapabilities
    objective: Objective
    unit: str
    collective: Collective | None
    message_bytes: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    unit_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    latency_counted: bool
    constraints: Constraints
    rounds: Annotated[tuple[PlannedRound, ...], Field(min_length=1)]
    cycle: Annotated[tuple[Count, ...], Field(min_length=1)]
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cycle_value: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    bound: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    optimal: bool
    gap_pct: Annotated[float, Field(ge=0, le=100)]
    stopped_early: bool
    solved_by: str
    bounds: tuple[Bound, ...]
    ring: RingReference
    search_s: Seconds = field(compare=False)

    @property
    def value_units(self) -> float:
        """The value with `unit_s` as the unit of time in place of a second."""
        if self.objective == "mean":
            return self.value / self.unit_s
        return self.value * self.unit_s

    def to_json(self, indent: int | None = 2) -> str:
        """Return the plan as JSON text."""
        return plan_format().dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Read what `to_json` wrote; raises UserError that names the first field that is wrong."""
        try:
            plan = plan_format().validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"]) or "the text"
            raise UserError(f"plan: {where}: {first['msg']}") from None
        _check_references(plan)
        return plan


@cache
def plan_format() -> TypeAdapter[Plan]:
    """Return what reads, writes and describes plans."""
    return TypeAdapter(Plan)


def _check_references(plan: Plan) -> None:
    """Raise UserError where the cycle or a tree points at a round or clique that is not there."""
    strangers = [place for place in plan.cycle if place >= len(plan.rounds)]
    if strangers:
        raise UserError(f"plan: cycle: no round {strangers[0]}, there are {len(plan.rounds)}")
    for number, planned in enumerate(plan.rounds):
        for tree in planned.trees:
            if tree.clique >= len(planned.cliques):
                raise UserError(f"plan: rounds.{number}.trees: no clique {tree.clique}")
