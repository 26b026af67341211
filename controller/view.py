"""What the controller knows of the network, and what follows from it for every switch.

The topology comes from the model and says what there should be; switches say which of their ports
are up. A link is down as soon as one of its two ends is: with a veth pair or a real fibre, only one
end may notice. Capacity and delay always come from the model, never from what a port claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from controller.compile import compile_intents
from controller.fabric import ACCESS_PORT, Fabric, accelerator_end
from controller.groups import MulticastGroup, most_groups, trees_of, with_joined
from controller.intents import (
    AggregationTree,
    Intent,
    MulticastTree,
    Tree,
    accelerator_intents,
    arp_intents,
    igmp_intents,
    unicast_intents,
    unreachable_pairs,
)
from controller.membership import Memberships
from controller.rules import SwitchState
from topologies.model import Direction, Topology
from topologies.routing import Routes, least_delay_routes


@dataclass(frozen=True)
class NetworkView:
    """An immutable picture of the network; a change of a port or a wish gives a new one.

    Attributes:
        ports_down: (site, port) of every port that its switch reported down or lacks.
        trees: trees with links of their own choice, to be installed as they are.
        groups: groups whose trees follow members and routes.
        memberships: what islands asked for by IGMP.
    """

    topology: Topology
    ports_down: frozenset[tuple[str, int]] = frozenset()
    trees: tuple[Tree, ...] = ()
    groups: tuple[MulticastGroup, ...] = ()
    memberships: Memberships = field(default_factory=Memberships)

    def with_port(self, fabric: Fabric, site: str, port: int, up: bool) -> NetworkView:
        """The view after one port changed; a port the model does not know changes nothing.

        An island whose access port goes down has left its groups: it will be asked when it is back.
        """
        if fabric.end_at(site, port) is None or up is ((site, port) not in self.ports_down):
            return self
        one = frozenset({(site, port)})
        view = replace(self, ports_down=self.ports_down - one if up else self.ports_down | one)
        if up or port != ACCESS_PORT:
            return view
        return view.with_memberships(self.memberships.without(self.memberships.of_site(site)))

    def with_ports(self, fabric: Fabric, site: str, up: Mapping[int, bool]) -> NetworkView:
        """The view after a switch listed its ports; one that is not listed is down."""
        view = self
        for port in fabric.ports(site):
            view = view.with_port(fabric, site, port, up.get(port, False))
        return view

    def with_memberships(self, memberships: Memberships) -> NetworkView:
        """The view after hosts joined or left groups."""
        if memberships is self.memberships:
            return self
        return replace(self, memberships=memberships)._regrouped()

    def with_trees(self, trees: Iterable[Tree]) -> NetworkView:
        """The view with these fixed trees in place of the present ones."""
        return replace(self, trees=tuple(trees))._regrouped()

    def with_groups(self, groups: Iterable[MulticastGroup]) -> NetworkView:
        """The view with these groups in place of the present ones."""
        return replace(self, groups=tuple(groups))._regrouped()

    def _regrouped(self) -> NetworkView:
        fixed = [tree.group_ip for tree in self.trees if isinstance(tree, MulticastTree)]
        most = most_groups(len(self.topology.codes))
        return replace(self, groups=with_joined(self.groups, self.memberships, fixed, most))

    def links_down(self, fabric: Fabric) -> tuple[Direction, ...]:
        """Both directions of every link, WAN or access, with an end down; sorted."""
        down = {
            direction
            for site, port in self.ports_down
            for direction in _both_ways(site, str(fabric.end_at(site, port)))
        }
        return tuple(sorted(down))


@dataclass(frozen=True)
class Plan:
    """What follows from a view.

    Attributes:
        routes: the unicast routes in use.
        trees: every tree, fixed ones first.
        base: what each switch should hold besides trees.
        unreachable: pairs of sites without a route.
        cut: links that are down, by number of the fixed tree that they cut.
    """

    view: NetworkView
    routes: Routes
    trees: tuple[Tree, ...]
    base: Mapping[str, SwitchState]
    unreachable: tuple[tuple[str, str], ...]
    cut: Mapping[int, tuple[Direction, ...]]

    def wanted(self, fabric: Fabric, trees: Iterable[Intent]) -> Mapping[str, SwitchState]:
        """What each switch should hold when these trees are laid out as they are given.

        Raises:
            UserError: two trees claim the same packets, or a site or link is unknown.
        """
        states = compile_intents(fabric, trees)
        return {code: state | states[code] for code, state in self.base.items()}

    def without_group(self, group_ip: str) -> Plan:
        """This plan without the trees of a group; they are all multicast."""
        kept = [tree for tree in self.trees if tree in self.view.trees or tree.address != group_ip]
        return replace(self, trees=tuple(kept))


def plan(fabric: Fabric, view: NetworkView, before: Plan | None = None) -> Plan:
    """Least-delay routes over the links that are up, and the trees that follow from them.

    A fixed tree that a dead link cuts stays as it was asked for: what is beyond the link gets
    nothing until whoever asked for the tree moves it. Trees of groups go round the link.

    Args:
        fabric: the network's numbers.
        view: what is known of it.
        before: an earlier plan of the same topology; where links are as they were, its routes are
            taken over, which are most of the work.
    """
    if before is not None and before.view.ports_down == view.ports_down:
        same = replace(before, view=view)
    else:
        same = _routed(fabric, view)
    grown = [
        tree
        for group in view.groups
        for tree in trees_of(group, view.memberships, fabric, same.routes)
    ]
    down = frozenset(view.links_down(fabric))
    cut = {tree.tree_id: ways for tree in view.trees if (ways := _cut(tree, down))}
    return replace(same, trees=(*view.trees, *grown), cut=cut)


def _routed(fabric: Fabric, view: NetworkView) -> Plan:
    """A plan without trees."""
    dead = [way for way in view.links_down(fabric) if not way.is_access]
    routes = least_delay_routes(view.topology, without=dead)
    intents: tuple[Intent, ...] = (
        *unicast_intents(routes),
        *accelerator_intents(routes, fabric),
        *arp_intents(view.topology),
        *igmp_intents(view.topology),
    )
    base = compile_intents(fabric, intents)
    return Plan(view, routes, (), base, unreachable_pairs(routes), {})


def states(fabric: Fabric, view: NetworkView) -> Mapping[str, SwitchState]:
    """What every switch holds when a view has settled."""
    made = plan(fabric, view)
    return made.wanted(fabric, made.trees)


def _cut(tree: Tree, down: frozenset[Direction]) -> tuple[Direction, ...]:
    sums_at = tree.sums_at if isinstance(tree, AggregationTree) else ()
    links = [*tree.hops, *((site, accelerator_end(site)) for site in sums_at)]
    return tuple(way for link in links if (way := Direction(*link)) in down)


def _both_ways(site: str, end: str) -> tuple[Direction, Direction]:
    way = Direction(site, end)
    return way, way.reverse
