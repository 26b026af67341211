"""What will be built: every wire with its ends, names and addresses, decided before anything is.

A *wire* is one link of the topology or one access port. It is two veth pairs: each node has its
own interface, whose peer is a *wire end* in the run's root namespace. There a link back-end joins
the two ends and shapes each direction, in the network and off the sender's own interface.

    island NYC                         run's root namespace                        switch NYC
    wan0  <--- veth --->  w0a  <== back-end: rate, delay, queue ==>  w0b  <--- veth --->  p1

Names are short (an interface has 15 characters), unique in the namespace where they stand, and
follow from the numbering of `controller.fabric`, so that each maps back to a city.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.fabric import (
    ACCELERATOR_INTERFACE,
    ACCELERATOR_PORT,
    ACCESS_PORT,
    ISLAND_INTERFACE,
    Fabric,
    accelerator_end,
    island_end,
)
from topologies.model import Direction, Topology

MANAGEMENT_INTERFACE = "mgmt0"
MANAGEMENT_BRIDGE = "mgmt"


@dataclass(frozen=True)
class NodeEnd:
    """One end of a wire at a node: the node's name, its interface and Ethernet address."""

    node: str
    interface: str
    mac: str


@dataclass(frozen=True)
class WirePlan:
    """One wire: `forward` is the direction from `a` to `b`."""

    index: int
    a: NodeEnd
    b: NodeEnd
    forward: Direction

    @property
    def end_a(self) -> str:
        """Wire end beside `a`, in the run's root namespace."""
        return f"w{self.index}a"

    @property
    def end_b(self) -> str:
        """Wire end beside `b`, in the run's root namespace."""
        return f"w{self.index}b"


def port_interface(port: int) -> str:
    """Name of a switch's interface for an OpenFlow port."""
    return f"p{port}"


def port_mac(dpid: int, port: int) -> str:
    """Ethernet address of a switch port: locally administered, from datapath id and port."""
    return f"02:01:{dpid >> 8:02x}:{dpid & 255:02x}:{port >> 8:02x}:{port & 255:02x}"


def wire_end_mac(index: int, side: int) -> str:
    """Ethernet address of a wire end; nothing is ever sent to it."""
    return f"02:02:{index >> 8:02x}:{index & 255:02x}:00:{side:02x}"


def _switch_end(fabric: Fabric, site: str, towards: str) -> NodeEnd:
    port = fabric.port_to(site, towards)
    return NodeEnd(site, port_interface(port), port_mac(fabric.dpid(site), port))


def _access_ends(fabric: Fabric, site: str) -> tuple[NodeEnd, NodeEnd]:
    island = NodeEnd(island_end(site), ISLAND_INTERFACE, fabric.island_mac(site))
    interface = port_interface(ACCESS_PORT)
    return island, NodeEnd(site, interface, port_mac(fabric.dpid(site), ACCESS_PORT))


def accelerator_cable(fabric: Fabric, site: str) -> tuple[NodeEnd, NodeEnd]:
    """Return the ends of the cable between a site's accelerator and its switch.

    It is no wire: an accelerator sits in the device that switches, so nothing shapes what it is
    given; its own limits are those of `testbed.accelerator`.
    """
    accelerator = NodeEnd(
        accelerator_end(site), ACCELERATOR_INTERFACE, fabric.accelerator_mac(site)
    )
    mac = port_mac(fabric.dpid(site), ACCELERATOR_PORT)
    return accelerator, NodeEnd(site, port_interface(ACCELERATOR_PORT), mac)


def plan_wires(topology: Topology, fabric: Fabric) -> tuple[WirePlan, ...]:
    """Return every wire: the access ports in order of their sites, then the WAN links."""
    ends = [(*_access_ends(fabric, code), Direction.up(code)) for code in fabric.codes]
    for link in topology.links:
        a, b = _switch_end(fabric, link.a, link.b), _switch_end(fabric, link.b, link.a)
        ends.append((a, b, Direction(link.a, link.b)))
    return tuple(WirePlan(index, *parts) for index, parts in enumerate(ends))
