"""Numbers of the fabric: which datapath, port and address each site has.

Builder, controller, measurement and deployment must agree on these numbers without talking to one
another. So they follow from the topology alone, by one pure rule: everything is counted from the
site codes in sorted order. Nothing is discovered and nothing is stored.

    site i (from 0)        dpid 1 + i
    port 1                 the island's access port
    ports 2, 3, ...        WAN neighbours in the order of their codes
    island                 10.0.x.y/16 and 02:00:00:00:hh:ll on interface `wan0`
    management network     10.255.x.y/16: the controller first, then island and switch of each site

The first octet pair of a MAC starts with 02, the "locally administered" bit of IEEE 802, so that no
address can meet one of a real card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from topologies.errors import UserError

if TYPE_CHECKING:
    from topologies.model import Topology

ACCESS_PORT = 1
FIRST_WAN_PORT = 2
ISLAND_INTERFACE = "wan0"
ISLAND_NETWORK = "10.0.0.0/16"
MANAGEMENT_NETWORK = "10.255.0.0/16"
PREFIX_LENGTH = 16
OPENFLOW_PORT = 6653
NORTHBOUND_PORT = 8080
SSH_PORT = 22

_HOSTS_PER_BLOCK = 250
_MAX_SITES = (256 * _HOSTS_PER_BLOCK - 1) // 2


def _address(network: int, number: int) -> str:
    block, host = divmod(number, _HOSTS_PER_BLOCK)
    return f"10.{network}.{block}.{host + 1}"


CONTROLLER_IP = _address(255, 0)


def island_end(site: str) -> str:
    """Name of the island's end of an access direction, such as `NYC.island`."""
    return f"{site}.island"


@dataclass(frozen=True)
class Fabric:
    """Every number of one topology's fabric; build it with `Fabric.of`.

    Attributes:
        codes: site codes, sorted.
        neighbours: WAN neighbours of each site, sorted.
    """

    codes: tuple[str, ...]
    neighbours: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, topology: Topology) -> Fabric:
        """The fabric of a topology; more sites than there are addresses is a `UserError`."""
        codes = tuple(sorted(topology.codes))
        if len(codes) > _MAX_SITES:
            raise UserError(f"{topology.name}: {len(codes)} sites, at most {_MAX_SITES} fit")
        adjacent: dict[str, set[str]] = {code: set() for code in codes}
        for link in topology.links:
            adjacent[link.a].add(link.b)
            adjacent[link.b].add(link.a)
        return cls(codes, MappingProxyType({code: tuple(sorted(adjacent[code])) for code in codes}))

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {code: index for index, code in enumerate(self.codes)}

    @cached_property
    def _site_of_island_ip(self) -> Mapping[str, str]:
        return {self.island_ip(code): code for code in self.codes}

    def index(self, site: str) -> int:
        """Place of a site among the sorted codes, from 0; an unknown site is a `UserError`."""
        try:
            return self._index[site]
        except KeyError:
            known = ", ".join(self.codes)
            raise UserError(f"no site {site!r} in this topology; it has {known}") from None

    def dpid(self, site: str) -> int:
        """OpenFlow datapath id of the site's switch, from 1."""
        return 1 + self.index(site)

    def site_of_dpid(self, dpid: int) -> str | None:
        """Site whose switch has this datapath id, or None for a stranger."""
        return self.codes[dpid - 1] if 1 <= dpid <= len(self.codes) else None

    def ports(self, site: str) -> Mapping[int, str]:
        """Switch ports of a site: number -> neighbour's code, or `NYC.island` for port 1."""
        self.index(site)
        wan = enumerate(self.neighbours[site], start=FIRST_WAN_PORT)
        return {ACCESS_PORT: island_end(site), **dict(wan)}

    def port_to(self, site: str, neighbour: str) -> int:
        """Port of the site's switch towards a WAN neighbour or its own `NYC.island`."""
        for port, end in self.ports(site).items():
            if end == neighbour:
                return port
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
        high, low = divmod(1 + self.index(site), 256)
        return f"02:00:00:00:{high:02x}:{low:02x}"

    def site_of_island_ip(self, address: str) -> str | None:
        """Site whose island has this WAN address, or None."""
        return self._site_of_island_ip.get(address)

    def island_management_ip(self, site: str) -> str:
        """IPv4 address of the island on the management network."""
        return _address(255, 2 * self.index(site) + 1)

    def switch_management_ip(self, site: str) -> str:
        """IPv4 address of the site's switch on the management network."""
        return _address(255, 2 * self.index(site) + 2)
