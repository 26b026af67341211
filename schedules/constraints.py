"""What a user demands of a plan besides its objective, and how costs become seconds.

A round takes transfer + latency. When computing goes on behind the transfers, a round takes no less
than the compute time of the slowest island that takes part; an island left idle in a round (a
straggler, say) does not hold it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from schedules.cost import NANOSECONDS, CostModel, RoundCost
from schedules.network import FloatArray
from topologies.errors import UserError
from topologies.model import Topology


@dataclass(frozen=True)
class Constraints:
    """Optional limits on every round.

    Attributes:
        min_clique: fewest islands in a clique that is not idle.
        max_clique: most islands in a clique.
        max_round_s: longest round.
        compute_s: compute time of a round, hidden behind its transfers as far as it goes.
        compute_factor: by site code, how many times as long a straggler computes.
    """

    min_clique: int = 2
    max_clique: int | None = None
    max_round_s: float | None = None
    compute_s: float = 0.0
    compute_factor: Mapping[str, float] = field(default_factory=dict, hash=False)

    def check(self, topology: Topology) -> None:
        """Raise UserError for values out of range or unknown sites."""
        most = self.max_clique
        if self.min_clique < 2:
            raise UserError(f"min_clique {self.min_clique} is below two: a clique of one is idle")
        if most is not None and most < self.min_clique:
            raise UserError(f"max_clique {most} clashes with min_clique {self.min_clique}")
        if self.min_clique > len(topology.codes):
            raise UserError(
                f"min_clique {self.min_clique} is above the {len(topology.codes)} islands "
                f"of {topology.name}"
            )
        if self.max_round_s is not None and not self.max_round_s > 0:
            raise UserError(f"max_round_s {self.max_round_s} is not above zero")
        if not (self.compute_s >= 0 and isfinite(self.compute_s)):
            raise UserError(f"compute_s {self.compute_s} is not zero or more")
        for code, factor in self.compute_factor.items():
            if code not in topology.codes:
                raise UserError(f"compute_factor: {code} is no site of {topology.name}")
            if not (factor > 0 and isfinite(factor)):
                raise UserError(f"compute_factor of {code}: {factor} is not above zero")

    def active(self) -> dict[str, Constraints]:
        """Return each limit that is set, by its name and value, with these without it."""
        found = {}
        if self.min_clique > 2:
            found[f"min_clique {self.min_clique}"] = replace(self, min_clique=2)
        if self.max_clique is not None:
            found[f"max_clique {self.max_clique}"] = replace(self, max_clique=None)
        if self.max_round_s is not None:
            found[f"max_round_s {self.max_round_s:g}"] = replace(self, max_round_s=None)
        return found


@dataclass(frozen=True, eq=False)
class Clock:
    """Turns transfer units and latencies into seconds.

    Attributes:
        unit_s: seconds of one message over the slowest direction.
        counts_latency: whether latency is part of a round's time.
        compute_s: (N,) compute time of each island in a round.
    """

    unit_s: float
    counts_latency: bool
    compute_s: FloatArray

    @classmethod
    def of(
        cls, model: CostModel, message_bytes: float, constraints: Constraints, latency: bool = True
    ) -> Clock:
        """Make a clock; raises UserError when there is no message."""
        if not (message_bytes > 0 and isfinite(message_bytes)):
            raise UserError(f"message_bytes {message_bytes} is not above zero")
        factors = [constraints.compute_factor.get(code, 1.0) for code in model.network.codes]
        compute = constraints.compute_s * np.array(factors)
        return cls(model.seconds_per_unit(8 * message_bytes), latency, compute)

    def seconds(self, units: FloatArray, latency_ns: FloatArray, compute: FloatArray) -> FloatArray:
        """Return the time of rounds from transfers, latencies and compute times."""
        transfer = np.asarray(units * self.unit_s, dtype=np.float64)
        if self.counts_latency:
            transfer = transfer + latency_ns * NANOSECONDS
        return np.maximum(transfer, compute)

    def round_s(self, cost: RoundCost, members: Sequence[int]) -> float:
        """Return the time of one round in which these islands take part."""
        latency = cost.latency_ns * NANOSECONDS if self.counts_latency else 0.0
        compute = max((float(self.compute_s[site]) for site in members), default=0.0)
        return max(cost.transfer_units * self.unit_s + latency, compute)
