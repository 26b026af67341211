"""What the network should do, without a word on how: the controller's input.

An intent is a frozen dataclass on site codes. `controller.compile` turns intents into rules for
each switch; it needs nothing else than the fabric's numbers. Keeping "what" from "how" is the
lesson of faucet and of intent frameworks: a reroute is nothing but a new list of intents, and what
must change at which switch follows from a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from controller.fabric import HIGHEST_TREE_VERSION, Fabric
from controller.trees import AggregationTree, MulticastTree, Tree
from topologies.errors import UserError
from topologies.model import Topology
from topologies.routing import NoRouteError, Routes

__all__ = ["AggregationTree", "MulticastTree", "Tree"]


@dataclass(frozen=True)
class UnicastRoutes:
    """Forwarding towards one island or accelerator: the neighbour each site hands its packets to.

    Sites that cannot reach the destination are left out; they drop what is meant for it.
    """

    destination: str
    next_hops: tuple[tuple[str, str], ...]
    to_accelerator: bool = False


@dataclass(frozen=True)
class ArpToController:
    """ARP requests of a site go to the controller, which knows every answer."""

    site: str
    rate_packets_per_s: int = 100
    burst_packets: int = 1000


@dataclass(frozen=True)
class IgmpToController:
    """What a site's island says about the multicast groups it wants goes to the controller."""

    site: str
    rate_packets_per_s: int = 100
    burst_packets: int = 200


@dataclass(frozen=True)
class PlacedTree:
    """A tree under one version of its rules, or a part of them while the tree moves.

    Packets take the rules of the version that they got where they entered the network, all the way.
    So rules of a new version can be laid out first (`entries` false), then be entered, while the
    old version stays (`entries` false again) for the packets that are on their way.
    """

    tree: Tree
    version: int = 0
    entries: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.version <= HIGHEST_TREE_VERSION:
            raise UserError(f"tree version {self.version} is not within 0 to 254")


Intent = UnicastRoutes | ArpToController | IgmpToController | Tree | PlacedTree


def unicast_intents(routes: Routes) -> tuple[UnicastRoutes, ...]:
    """Forwarding towards every island along the given routes."""
    towards: dict[str, list[tuple[str, str]]] = {code: [] for code in routes.topology.codes}
    for (at, to), neighbour in sorted(routes.next_hops.items()):
        towards[to].append((at, neighbour))
    return tuple(UnicastRoutes(to, tuple(hops)) for to, hops in towards.items())


def accelerator_intents(routes: Routes, fabric: Fabric) -> tuple[UnicastRoutes, ...]:
    """Forwarding towards every accelerator, by the same ways as to the island beside it."""
    return tuple(
        UnicastRoutes(intent.destination, intent.next_hops, to_accelerator=True)
        for intent in unicast_intents(routes)
        if intent.destination in fabric.accelerators
    )


def igmp_intents(topology: Topology) -> tuple[IgmpToController, ...]:
    """IGMP to the controller at every site."""
    return tuple(IgmpToController(code) for code in topology.codes)


def arp_intents(topology: Topology) -> tuple[ArpToController, ...]:
    """ARP to the controller at every site; a burst lets each island ask for all others twice."""
    burst = max(100, 2 * len(topology.codes))
    return tuple(ArpToController(code, burst_packets=burst) for code in topology.codes)


def least_delay_tree(
    routes: Routes, tree_id: int, group_ip: str, root: str, receivers: Iterable[str]
) -> MulticastTree:
    """The tree of least-delay paths from a root to receivers.

    Raises:
        NoRouteError: a receiver cannot be reached.
    """
    wanted = tuple(sorted(set(receivers) - {root}))
    return MulticastTree(tree_id, group_ip, root, hops_from(routes, root, wanted), wanted)


def hops_from(routes: Routes, root: str, ends: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Links of the least-delay paths from a root to these sites, as (parent, child).

    Raises:
        NoRouteError: a site cannot be reached.
    """
    paths = [routes.path(root, end) for end in ends if end != root]
    return tuple(sorted({hop for path in paths for hop in pairwise(path)}))


def unreachable_pairs(routes: Routes) -> tuple[tuple[str, str], ...]:
    """Pairs (from, to) of sites that no remaining link connects."""
    codes = routes.topology.codes
    return tuple((a, b) for a in codes for b in codes if a != b and not _reaches(routes, a, b))


def _reaches(routes: Routes, a: str, b: str) -> bool:
    try:
        routes.next_hop(a, b)
    except NoRouteError:
        return False
    return True


def hops_towards(routes: Routes, root: str, ends: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Links of the least-delay paths from these sites to a root, as (parent, child).

    Raises:
        NoRouteError: the root cannot be reached from a site.
    """
    paths = [routes.path(end, root) for end in ends if end != root]
    return tuple(sorted({(b, a) for path in paths for a, b in pairwise(path)}))
