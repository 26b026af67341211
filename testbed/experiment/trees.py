"""The trees of a schedule on a standing WAN: laid out before workers start, removed after they end.

A clique that works with the network is a *group*: one job number, one key, its trees. It is told
to three parties at once (`testbed.innetwork.layout`): the controller, the accelerators, and the
workers, through a file. Where the plan splits messages over several trees, each part of them is a
group (`testbed.innetwork.parts`). A clique that several rounds have in common keeps its groups;
they are paced for the fullest of those rounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from controller.trees import Tree
from schedules.capabilities import TREE_COLLECTIVES
from schedules.plan import PlannedRound, PlannedTree
from testbed.accelerator.process import Limits
from testbed.deploy.fleet import Fleet
from testbed.emulation.emulation import Emulation
from testbed.innetwork.layout import (
    CliqueWork,
    DrawnWan,
    Ground,
    Layout,
    Numbering,
    Wan,
    lay_out,
    merged,
    tree_requests,
)
from testbed.innetwork.limits import fan_ins, within_limits
from testbed.innetwork.parts import parts_of
from topologies.model import Topology
from workloads.innetwork.job import dump_groups

JOB_NAME = "groups.json"
CONTROLLER_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class GroupPlan:
    """A clique that works with the network, or a part of its messages, before it has any number.

    Attributes:
        kind: of its collective.
        members: site codes.
        trees: the plan's, one a root.
        transfer_units: of the fullest round it takes part in.
        share: of every message.
    """

    kind: str
    members: tuple[str, ...]
    trees: tuple[PlannedTree, ...]
    transfer_units: float
    share: float = 1.0


def groups_of(rounds: Iterable[PlannedRound]) -> list[GroupPlan]:
    """Return the distinct cliques of some rounds that work with the network, part by part."""
    found: dict[tuple[str, frozenset[str]], list[GroupPlan]] = {}
    for planned in rounds:
        for number, clique in enumerate(planned.cliques):
            if planned.collective not in TREE_COLLECTIVES or len(clique) < 2:
                continue
            key = planned.collective, frozenset(clique)
            groups = found.setdefault(key, _groups_of_clique(planned, number))
            units = max(groups[0].transfer_units, planned.predicted.transfer_units)
            found[key] = [replace(group, transfer_units=units) for group in groups]
    return [group for groups in found.values() for group in groups]


def _groups_of_clique(planned: PlannedRound, number: int) -> list[GroupPlan]:
    kind, units = planned.collective, planned.predicted.transfer_units
    trees = [tree for tree in planned.trees if tree.clique == number]
    return [
        GroupPlan(kind, planned.cliques[number], part.trees, units, part.share)
        for part in parts_of(kind, trees)
    ]


def lay_out_groups(
    groups: Iterable[GroupPlan],
    wan: Wan,
    rank_order: Sequence[str],
    numbering: Numbering,
    limits: Mapping[str, Limits] | None = None,
) -> list[Layout]:
    """Return what every party must know of some groups.

    Args:
        groups: to be laid out.
        wan: where; it need not have been built.
        rank_order: site codes; the place is the rank.
        numbering: of the whole run.
        limits: of accelerators by site; those without are not limited.

    Raises:
        UserError: trees cannot be laid out; the text says which and why.
    """
    limits = limits or {}
    ranks = {site: rank for rank, site in enumerate(rank_order)}
    ground = Ground(wan.topology, wan.routes, wan.fabric, ranks, fan_ins(limits))
    numbers = random.SystemRandom()
    rate_mbps = slowest_rate_mbps(wan)
    layouts = [
        lay_out(
            CliqueWork(
                collective=group.kind,
                members=group.members,
                trees=group.trees,
                rate_mbps=group.share * rate_mbps / group.transfer_units,
                share=group.share,
                job=numbers.getrandbits(64),
                key=numbers.getrandbits(64),
            ),
            ground,
            numbering,
        )
        for group in groups
    ]
    return within_limits(layouts, limits)


def check_runnable(
    rounds: Iterable[PlannedRound],
    topology: Topology,
    rank_order: Sequence[str],
    limits: Mapping[str, Limits],
) -> None:
    """Lay the trees of some rounds out on paper, before anything is built.

    Args:
        rounds: as planned.
        topology: as emulated, rates scaled.
        rank_order: site codes; the place is the rank.
        limits: of accelerators by site.

    Raises:
        UserError: the network that is to be built could not run them; one line says why.
    """
    lay_out_groups(
        groups_of(rounds), DrawnWan.of(topology, limits), rank_order, Numbering(), limits
    )


def slowest_rate_mbps(wan: Wan) -> float:
    """Return the rate of the slowest direction, which is what a plan's units refer to."""
    return min(spec.rate_mbps for spec in wan.topology.directions().values())


def install(layouts: Sequence[Layout], wan: Emulation) -> None:
    """Have the controller lay the trees out and the accelerators open them."""
    trees = _trees(layouts)
    if not trees:
        return
    wan.accelerators.open(merged(layouts))
    wan.controller.client.add_trees(tree_requests(trees))
    wan.controller.client.wait_ready(CONTROLLER_TIMEOUT_S)


def remove(layouts: Sequence[Layout], wan: Emulation) -> None:
    """Have the controller remove the trees and the accelerators forget them."""
    for tree in _trees(layouts):
        wan.controller.client.remove_tree(tree.tree_id)
    for site, configs in merged(layouts).items():
        for config in configs:
            wan.accelerators.at(site).close_tree(config.job, config.tree)


@contextmanager
def installed(layouts: Sequence[Layout], wan: Emulation) -> Iterator[None]:
    """Keep trees in the network while the body runs; a failure of the body leaves them there."""
    install(layouts, wan)
    yield
    remove(layouts, wan)


def push_groups(layouts: Sequence[Layout], fleet: Fleet, here: Path, there: str) -> None:
    """Give every island the file of its groups; none of it stays here, since it holds keys.

    Args:
        layouts: of the groups.
        fleet: the islands.
        here: a folder for the file on its way.
        there: the folder on the islands, where it is called `groups.json`.
    """
    file = here / JOB_NAME
    file.touch(mode=0o600)
    try:
        file.write_text(dump_groups([layout.group for layout in layouts]))
        fleet.push([file], there)
    finally:
        file.unlink()


def _trees(layouts: Iterable[Layout]) -> list[Tree]:
    return [tree for layout in layouts for tree in layout.trees]
