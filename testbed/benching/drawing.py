"""What is known of a benchmark before anything is built: plans, ranks, trees. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from schedules.capabilities import Accelerator, Capabilities
from testbed.accelerator.process import Limits
from testbed.benching.cliques import Planned, needs_accelerators, plan_cliques, ring_order
from testbed.experiment.trees import groups_of, lay_out_groups
from testbed.innetwork.layout import DrawnWan, Layout, Numbering, Wan
from testbed.innetwork.limits import fan_ins
from topologies.errors import UserError
from topologies.model import Topology


@dataclass(frozen=True)
class Drawn:
    """One clique of all islands, for each kind of collective.

    Attributes:
        planned: every kind's plan.
        rank_order: site codes; the place is the rank. Gloo's ring runs from each to the one before.
        layouts: of the kinds that work with the network, one for each part of their messages; all
            are open together.
    """

    planned: Mapping[str, Planned]
    rank_order: tuple[str, ...]
    layouts: Mapping[str, tuple[Layout, ...]]


def plan_on_paper(
    topology: Topology, kinds: tuple[str, ...], limits: Mapping[str, Limits]
) -> Drawn:
    """Plan every kind and lay its trees out, before anything is built.

    Args:
        topology: as emulated, rates scaled.
        kinds: of collectives.
        limits: of accelerators, by the sites that have one.

    Raises:
        UserError: the network cannot do a kind; one line says why.
    """
    planned = plan_cliques(topology, capabilities_for(kinds, limits), kinds)
    return draw(DrawnWan.of(topology, limits), planned, limits)


def draw(wan: Wan, planned: Mapping[str, Planned], limits: Mapping[str, Limits]) -> Drawn:
    """Lay the trees of every kind's plan out.

    Args:
        wan: where; it need not have been built.
        planned: every kind's plan.
        limits: of accelerators, by the sites that have one.

    Raises:
        UserError: trees cannot be laid out; the text says which and why.
    """
    rank_order = tuple(reversed(ring_order(planned)))
    in_network = [kind for kind, one in planned.items() if one.round.trees]
    groups = [group for kind in in_network for group in groups_of([planned[kind].round])]
    layouts = lay_out_groups(groups, wan, rank_order, Numbering(), limits)
    by_kind = {kind: tuple(one for one in layouts if one.group.kind == kind) for kind in in_network}
    return Drawn(planned, rank_order, by_kind)


def capabilities_for(kinds: tuple[str, ...], limits: Mapping[str, Limits]) -> Capabilities:
    """Return what the network must offer for these kinds, within its accelerators' limits.

    Raises:
        UserError: a limit leaves nothing to sum.
    """
    if not needs_accelerators(kinds):
        return Capabilities.parse("multicast")
    fan_in = fan_ins(limits)
    if any(streams < 2 for streams in fan_in.values()):
        raise UserError("--accelerator-fan-in: a single stream is nothing to sum; give 2 or more")
    return Capabilities(
        multicast=True,
        aggregation=True,
        accelerators={
            site: Accelerator(one.rate_mbps or inf, fan_in.get(site))
            for site, one in limits.items()
        },
    )
