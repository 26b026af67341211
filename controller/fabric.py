"""Numbers of the fabric: which datapath, port and address each site has.

Builder, controller, measurement and deployment must agree on these numbers without talking to one
another. So they follow from the topology alone, by one pure rule: everything is counted from the
site codes in sorted order. Nothing is discovered and nothing is stored.

    site i (from 0)        dpid 1 + i
    port 1                 the island's access port
    ports 2, 3, ...        WAN neighbours in the order of their codes
    port 1000              the accelerator, at sites that have one
    island                 10.0.x.y/16 and 02:00:00:00:hh:ll on interface `wan0`
    accelerator            10.1.x.y/16 and 02:00:01:00:hh:ll on interface `acc0`
    aggregation tree t     10.2.x.y, an address that no node has: switches steer what is sent there
    tree t, version v      02:00:02:vv:hh:ll as source on the way, so that a packet knows its rules
    multicast group n      239.192.0.0 + n
    management network     10.255.x.y/16: the controller first, then island and switch of each site

The first octet of a MAC is 02, the "locally administered" bit of IEEE 802, so that no address can
meet one of a real card. 239.192.0.0/14 is the organization's own scope of RFC 2365. Islands,
accelerators and trees lie in one block, 10.0.0.0/14, so one on-link route reaches them all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from topologies.errors import UserError

if TYPE_CHECKING:
    from topologies.model import Topology

ACCESS_PORT = 1
FIRST_WAN_PORT = 2
ACCELERATOR_PORT = 1000
ISLAND_INTERFACE = "wan0"
ACCELERATOR_INTERFACE = "acc0"
WAN_NETWORK = "10.0.0.0/14"
ISLAND_NETWORK = "10.0.0.0/16"
ACCELERATOR_NETWORK = "10.1.0.0/16"
TREE_NETWORK = "10.2.0.0/16"
GROUP_NETWORK = "239.192.0.0/14"
MANAGEMENT_NETWORK = "10.255.0.0/16"
PREFIX_LENGTH = 16
OPENFLOW_PORT = 6653
NORTHBOUND_PORT = 8080
SSH_PORT = 22

_HOSTS_PER_BLOCK = 250
_MAX_SITES = (256 * _HOSTS_PER_BLOCK - 1) // 2
HIGHEST_TREE_ID = 60_000
HIGHEST_TREE_VERSION = 254


def _address(network: int, number: int) -> str:
    block, host = divmod(number, _HOSTS_PER_BLOCK)
    return f"10.{network}.{block}.{host + 1}"


def _mac(kind: int, high: int, number: int) -> str:
    return f"02:00:{kind:02x}:{high:02x}:{number >> 8:02x}:{number & 255:02x}"


CONTROLLER_IP = _address(255, 0)
TREE_MAC = _mac(2, 255, 0)
_FIRST_GROUP = ipaddress.IPv4Network(GROUP_NETWORK).network_address


def island_end(site: str) -> str:
    """Name of the island's end of an access direction, such as `NYC.island`."""
    return f"{site}.island"


def accelerator_end(site: str) -> str:
    """Name of the accelerator's end of its link to the switch, such as `NYC.accelerator`."""
    return f"{site}.accelerator"


def tree_ip(tree_id: int) -> str:
    """IPv4 address that what goes up an aggregation tree is sent to."""
    return _address(2, tree_id)


def tree_mac(tree_id: int, version: int) -> str:
    """Ethernet source address by which switches know a packet of a tree's version."""
    return _mac(2, version, tree_id)


def group_ip(number: int) -> str:
    """IPv4 multicast address of the run's group of this number, from 1."""
    return str(_FIRST_GROUP + number)


@dataclass(frozen=True)
class Fabric:
    """Every number of one topology's fabric; build it with `Fabric.of`.

    Attributes:
        codes: site codes, sorted.
        neighbours: WAN neighbours of each site, sorted.
        accelerators: sites with an accelerator.
    """

    codes: tuple[str, ...]
    neighbours: Mapping[str, tuple[str, ...]]
    accelerators: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topology: Topology, accelerators: Iterable[str] = ()) -> Fabric:
        """The fabric of a topology with accelerators at these sites.

        Raises:
            UserError: more sites than there are addresses, or an accelerator at an unknown site.
        """
        codes = tuple(sorted(topology.codes))
        if len(codes) > _MAX_SITES:
            raise UserError(f"{topology.name}: {len(codes)} sites, at most {_MAX_SITES} fit")
        fabric = cls(codes, _neighbours(topology, codes), frozenset(accelerators))
        for site in sorted(fabric.accelerators):
            if len(fabric.neighbours[fabric.site(site)]) > ACCELERATOR_PORT - FIRST_WAN_PORT:
                raise UserError(f"{site}: too many neighbours for an accelerator at port 1000")
        return fabric

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {code: index for index, code in enumerate(self.codes)}

    @cached_property
    def _site_of_island_ip(self) -> Mapping[str, str]:
        return {self.island_ip(code): code for code in self.codes}

    @cached_property
    def _mac_of_ip(self) -> Mapping[str, str]:
        islands = {self.island_ip(code): self.island_mac(code) for code in self.codes}
        sites = sorted(self.accelerators)
        return islands | {self.accelerator_ip(s): self.accelerator_mac(s) for s in sites}

    @cached_property
    def _ports(self) -> Mapping[str, Mapping[int, str]]:
        return {code: MappingProxyType(self._ports_of(code)) for code in self.codes}

    def _ports_of(self, site: str) -> dict[int, str]:
        wan = dict(enumerate(self.neighbours[site], start=FIRST_WAN_PORT))
        own = {ACCELERATOR_PORT: accelerator_end(site)} if site in self.accelerators else {}
        return {ACCESS_PORT: island_end(site), **wan, **own}

    def index(self, site: str) -> int:
        """Place of a site among the sorted codes, from 0; an unknown site is a `UserError`."""
        try:
            return self._index[site]
        except KeyError:
            known = ", ".join(self.codes)
            raise UserError(f"no site {site!r} in this topology; it has {known}") from None

    def site(self, code: str) -> str:
        """The code itself, known to be a site's; an unknown one is a `UserError`."""
        return self.codes[self.index(code)]

    def dpid(self, site: str) -> int:
        """OpenFlow datapath id of the site's switch, from 1."""
        return 1 + self.index(site)

    def site_of_dpid(self, dpid: int) -> str | None:
        """Site whose switch has this datapath id, or None for a stranger."""
        return self.codes[dpid - 1] if 1 <= dpid <= len(self.codes) else None

    def ports(self, site: str) -> Mapping[int, str]:
        """Switch ports of a site: number -> neighbour's code, `NYC.island` or `NYC.accelerator`."""
        self.index(site)
        return self._ports[site]

    def port_to(self, site: str, neighbour: str) -> int:
        """Port of the site's switch towards a WAN neighbour, its own island or accelerator."""
        for port, end in self.ports(site).items():
            if end == neighbour:
                return port
        if neighbour == accelerator_end(site):
            raise UserError(f"{site} has no accelerator")
        raise UserError(f"no link {site}>{neighbour} in this topology")

    def end_at(self, site: str, port: int) -> str | None:
        """What the port leads to (a code, or `NYC.island`), or None when there is no such port."""
        return self.ports(site).get(port)

    def direction_at(self, site: str, port: int) -> str | None:
        """Direction that leaves through a port, such as `NYC>LON` or `NYC>NYC.island`."""
        end = self.end_at(site, port)
        return None if end is None else f"{site}>{end}"

    def island_ip(self, site: str) -> str:
        """IPv4 address of the island on the WAN, in `ISLAND_NETWORK`."""
        return _address(0, self.index(site))

    def island_mac(self, site: str) -> str:
        """Ethernet address of the island's `wan0`."""
        return _mac(0, 0, 1 + self.index(site))

    def accelerator_ip(self, site: str) -> str:
        """IPv4 address of the site's accelerator, in `ACCELERATOR_NETWORK`."""
        return _address(1, self.index(site))

    def accelerator_mac(self, site: str) -> str:
        """Ethernet address of the accelerator's `acc0`."""
        return _mac(1, 0, 1 + self.index(site))

    def end_ip(self, end: str) -> str:
        """IPv4 address of `NYC.island` or `NYC.accelerator`."""
        site, is_island = _site_of_end(end)
        return self.island_ip(site) if is_island else self.accelerator_ip(site)

    def end_mac(self, end: str) -> str:
        """Ethernet address of `NYC.island` or `NYC.accelerator`."""
        site, is_island = _site_of_end(end)
        return self.island_mac(site) if is_island else self.accelerator_mac(site)

    def mac_of(self, address: str) -> str | None:
        """Ethernet address behind an IPv4 address of the WAN, or None.

        All tree addresses share one: switches look at the IPv4 address of what is sent there.
        """
        known = self._mac_of_ip.get(address)
        if known is None and ipaddress.IPv4Address(address) in ipaddress.ip_network(TREE_NETWORK):
            return TREE_MAC
        return known

    def site_of_island_ip(self, address: str) -> str | None:
        """Site whose island has this WAN address, or None."""
        return self._site_of_island_ip.get(address)

    def island_management_ip(self, site: str) -> str:
        """IPv4 address of the island on the management network."""
        return _address(255, 2 * self.index(site) + 1)

    def switch_management_ip(self, site: str) -> str:
        """IPv4 address of the site's switch on the management network."""
        return _address(255, 2 * self.index(site) + 2)


def _site_of_end(end: str) -> tuple[str, bool]:
    """The site of an end's name, and whether the end is an island."""
    site, _, kind = end.rpartition(".")
    return site, kind == "island"


def _neighbours(topology: Topology, codes: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    adjacent: dict[str, set[str]] = {code: set() for code in codes}
    for link in topology.links:
        adjacent[link.a].add(link.b)
        adjacent[link.b].add(link.a)
    return MappingProxyType({code: tuple(sorted(ends)) for code, ends in adjacent.items()})
