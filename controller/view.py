"""What the controller knows of the network, and what follows from it for every switch.

The topology comes from the model and says what there should be; switches say which of their ports
are up. A link is down as soon as one of its two ends is: with a veth pair or a real fibre, only one
end may notice. Capacity and delay always come from the model, never from what a port claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.compile import compile_intents
from controller.fabric import Fabric
from controller.intents import (
    Intent,
    MulticastTree,
    arp_intents,
    unicast_intents,
    unreachable_pairs,
)
from controller.rules import SwitchState
from topologies.model import Direction, Topology
from topologies.routing import Routes, least_delay_routes


@dataclass(frozen=True)
class NetworkView:
    """An immutable picture of the network; a change of a port gives a new one.

    Attributes:
        ports_down: (site, port) of every port that its switch reported down or lacks.
        trees: multicast trees to be installed.
    """

    topology: Topology
    ports_down: frozenset[tuple[str, int]] = frozenset()
    trees: tuple[MulticastTree, ...] = ()

    def with_port(self, fabric: Fabric, site: str, port: int, up: bool) -> NetworkView:
        """The view after one port changed; a port the model does not know changes nothing."""
        if fabric.end_at(site, port) is None or up is ((site, port) not in self.ports_down):
            return self
        one = frozenset({(site, port)})
        return replace(self, ports_down=self.ports_down - one if up else self.ports_down | one)

    def with_ports(self, fabric: Fabric, site: str, up: Mapping[int, bool]) -> NetworkView:
        """The view after a switch listed its ports; one that is not listed is down."""
        view = self
        for port in fabric.ports(site):
            view = view.with_port(fabric, site, port, up.get(port, False))
        return view

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
    """What follows from a view: the routes in use and what each switch should hold."""

    view: NetworkView
    routes: Routes
    wanted: Mapping[str, SwitchState]
    unreachable: tuple[tuple[str, str], ...]


def plan(fabric: Fabric, view: NetworkView) -> Plan:
    """Least-delay routes over the links that are up, compiled for every switch.

    A multicast tree that a dead link cuts is installed as it was asked for: what was under the link
    gets nothing until whoever asked for the tree moves it.
    """
    dead = [way for way in view.links_down(fabric) if not way.is_access]
    routes = least_delay_routes(view.topology, without=dead)
    intents: tuple[Intent, ...] = (
        *unicast_intents(routes),
        *arp_intents(view.topology),
        *view.trees,
    )
    return Plan(view, routes, compile_intents(fabric, intents), unreachable_pairs(routes))


def _both_ways(site: str, end: str) -> tuple[Direction, Direction]:
    way = Direction(site, end)
    return way, way.reverse
