"""What a round costs, twenty thousand times a second and more, in networks small enough for tables.

`schedules.cost.cost_of_round` finds ring orders and trees anew for every question. Here they are
found once for every clique (`schedules.tables`); a round is then a sum of table rows, and its cost
the largest entry of the sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schedules.capabilities import Capabilities
from schedules.cost import CostModel, numbered_cliques
from schedules.network import FloatArray
from schedules.partitions import ENUMERATED_SITES, mask_of
from schedules.rounds import FULLY_TABLED_SITES
from schedules.tables import styles
from topologies.errors import UserError
from topologies.model import Topology


class TabledCost(NamedTuple):
    """What a round costs in one style.

    Attributes:
        transfer_units: transfer in messages over the slowest direction.
        latency_ns: longest one-way path.
        traversals: messages times WAN links crossed.
    """

    transfer_units: float
    latency_ns: int
    traversals: float


@dataclass(frozen=True, eq=False)
class RoundTable:
    """Costs of every clique of a small network, for one collective and style.

    Attributes:
        model: the network and its capabilities.
        units: for every clique, the time it keeps each direction busy that any does.
        latency_ns: longest path of every clique.
        traversals: messages times WAN links of every clique.
    """

    model: CostModel
    units: tuple[FloatArray, ...]
    latency_ns: tuple[int, ...]
    traversals: tuple[float, ...]

    @classmethod
    def of(
        cls, topology: Topology, collective: str, capabilities: Capabilities, style: int = 0
    ) -> RoundTable:
        """Tabulate a collective; style 0 is that of least load.

        Raises:
            UserError: when the capabilities do not permit it or there are too many sites.
        """
        capabilities.permitted(collective)
        model = CostModel.of(topology, capabilities)
        most = FULLY_TABLED_SITES if collective == "ring" else ENUMERATED_SITES
        if model.network.size > most:
            raise UserError(f"{topology.name} has more than {most} sites: no table holds them")
        found = styles(model, collective)[style]
        units = found.loads * model.slowness
        busy = units[:, units.any(axis=0)]
        latency, crossed = found.latency_ns.tolist(), found.traversals.tolist()
        return cls(model, tuple(np.ascontiguousarray(busy)), tuple(latency), tuple(crossed))

    def masks(self, cliques: Iterable[Collection[str]]) -> tuple[int, ...]:
        """Return cliques of site codes as masks; raises UserError for unknown or repeated ones."""
        return tuple(mask_of(clique) for clique in numbered_cliques(self.model.network, cliques))

    def cost(self, masks: Sequence[int]) -> TabledCost:
        """Return the cost of one round."""
        units = self.units[0]
        latency, traversals = 0, 0.0
        table, longest, crossed = self.units, self.latency_ns, self.traversals
        for mask in masks:
            units = units + table[mask]
            latency = max(latency, longest[mask])
            traversals += crossed[mask]
        return TabledCost(float(np.max(units)), latency, traversals)
