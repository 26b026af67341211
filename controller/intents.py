"""What the network should do, without a word on how: the controller's input.

An intent is a frozen dataclass on site codes. `controller.compile` turns intents into rules for
each switch; it needs nothing else than the fabric's numbers. Keeping "what" from "how" is the
lesson of faucet and of intent frameworks: a reroute is nothing but a new list of intents, and what
must change at which switch follows from a comparison.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from topologies.errors import UserError
from topologies.model import Topology
from topologies.routing import NoRouteError, Routes

HIGHEST_TREE_ID = 0xFFFFFF00  # OFPG_MAX: larger group numbers have meanings of their own


@dataclass(frozen=True)
class UnicastRoutes:
    """Forwarding towards one island: the neighbour each site hands its packets to.

    Sites that cannot reach the destination are left out; they drop what is meant for it.
    """

    destination: str
    next_hops: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ArpToController:
    """ARP requests of a site's island go to the controller, which knows every answer."""

    site: str
    rate_packets_per_s: int = 100
    burst_packets: int = 1000


@dataclass(frozen=True)
class MulticastTree:
    """One sender's packets to a group address are copied along a tree, once over each link.

    Attributes:
        tree_id: number of the tree in this run, from 1; also its OpenFlow group number.
        group_ip: IPv4 multicast address the sender addresses.
        root: site of the sending island.
        hops: (parent, child) of every link of the tree, away from the root.
        receivers: sites whose islands get a copy; never the root's, since that would be back out
            of the port the packet came in by.

    Raises:
        UserError: when this is not a tree from the root that reaches every receiver.
    """

    tree_id: int
    group_ip: str
    root: str
    hops: tuple[tuple[str, str], ...]
    receivers: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hops", tuple(sorted(self.hops)))
        object.__setattr__(self, "receivers", tuple(sorted(self.receivers)))
        self._check_numbers()
        self._check_shape()

    def _check_numbers(self) -> None:
        if not 1 <= self.tree_id <= HIGHEST_TREE_ID:
            raise UserError(f"tree id {self.tree_id} is not within 1 to {HIGHEST_TREE_ID}")
        try:
            multicast = ipaddress.IPv4Address(self.group_ip).is_multicast
        except ValueError:
            multicast = False
        if not multicast:
            raise UserError(
                f"tree {self.tree_id}: {self.group_ip!r} is no IPv4 multicast address "
                "(224.0.0.0 to 239.255.255.255)"
            )

    def _check_shape(self) -> None:
        parents = {child: parent for parent, child in self.hops}
        if len(parents) != len(self.hops) or self.root in parents:
            raise UserError(f"tree {self.tree_id}: a site is entered twice")
        reached = {site for site in (self.root, *parents) if _leads_to(site, self.root, parents)}
        unreached = sorted((set(parents) | set(self.receivers)) - reached)
        if unreached:
            raise UserError(
                f"tree {self.tree_id}: {', '.join(unreached)} not reached from {self.root}"
            )
        if self.root in self.receivers:
            raise UserError(f"tree {self.tree_id}: its root {self.root} cannot be a receiver")

    def parent(self, site: str) -> str | None:
        """Site before this one, or None at the root."""
        return next((parent for parent, child in self.hops if child == site), None)

    def children(self, site: str) -> tuple[str, ...]:
        """Sites after this one, sorted."""
        return tuple(child for parent, child in self.hops if parent == site)

    def sites(self) -> tuple[str, ...]:
        """Every site of the tree, sorted."""
        return tuple(sorted({self.root, *(child for _, child in self.hops)}))


def _leads_to(site: str, root: str, parents: dict[str, str]) -> bool:
    for _ in range(len(parents) + 1):
        if site == root:
            return True
        if site not in parents:
            return False
        site = parents[site]
    return False


Intent = UnicastRoutes | ArpToController | MulticastTree


def unicast_intents(routes: Routes) -> tuple[UnicastRoutes, ...]:
    """Forwarding towards every island along the given routes."""
    towards: dict[str, list[tuple[str, str]]] = {code: [] for code in routes.topology.codes}
    for (at, to), neighbour in sorted(routes.next_hops.items()):
        towards[to].append((at, neighbour))
    return tuple(UnicastRoutes(to, tuple(hops)) for to, hops in towards.items())


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
    paths = [routes.path(root, receiver) for receiver in wanted]
    hops = {hop for path in paths for hop in pairwise(path)}
    return MulticastTree(tree_id, group_ip, root, tuple(hops), wanted)


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
