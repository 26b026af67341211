"""From planned rounds back to numbered work: so that anyone can cost or draw a plan again."""

from __future__ import annotations

from collections.abc import Sequence

from schedules.cost import CarriedTree, CliqueWork, CostModel, RoundCost
from schedules.network import Network
from schedules.plan import Plan, PlannedRound, PlannedTree
from schedules.trees import Tree
from topologies.errors import UserError
from topologies.model import Topology


def works_of(network: Network, planned: PlannedRound) -> tuple[CliqueWork, ...]:
    """Return what each clique of a planned round does, by site number.

    Raises:
        UserError: for a site or link that the network does not have.
    """
    number = {code: site for site, code in enumerate(network.codes)}

    def sites(codes: Sequence[str]) -> tuple[int, ...]:
        strangers = [code for code in codes if code not in number]
        if strangers:
            raise UserError(f"plan: {strangers[0]} is no site of {network.topology.name}")
        return tuple(number[code] for code in codes)

    def carried(tree: PlannedTree) -> CarriedTree:
        (root,) = sites([tree.root])
        hops = tuple((number[a], number[b]) for a, b in tree.hops if sites([a, b]))
        for hop, names in zip(hops, tree.hops, strict=True):
            if network.wan_column[hop] < 0:
                raise UserError(f"plan: {'>'.join(names)} is no link of {network.topology.name}")
        return CarriedTree(tree.kind, Tree(root, hops), sites(tree.members), tree.share)

    return tuple(
        CliqueWork(sites(clique), tuple(carried(t) for t in planned.trees if t.clique == place))
        for place, clique in enumerate(planned.cliques)
    )


def cost_again(topology: Topology, plan: Plan) -> tuple[RoundCost, ...]:
    """Return the cost of every round of a plan, computed from its cliques and trees alone."""
    model = CostModel.of(topology, plan.capabilities.read())
    return tuple(
        model.round_cost(planned.collective, works_of(model.network, planned))
        for planned in plan.rounds
    )
