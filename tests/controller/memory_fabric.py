"""The real application with an in-memory switch at every site: settled on demand."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any

from controller.app import FabricController
from controller.asking import Asking
from controller.fabric import ACCESS_PORT
from controller.igmp import checksum, ipv4_frame
from controller.readout import Readout
from tests.controller.memory_switch import MemoryDatapath, datapath_of
from tests.controller.pipeline import Journey, PipelineNetwork
from topologies.model import Topology

JOIN, LEAVE = 0x16, 0x17
_ALL_ROUTERS = "224.0.0.2"


class MemoryFabric:
    """A controller whose switches are all connected; use `settle` after whatever it is told."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.controller = FabricController(topology=topology, **options)
        self.fabric = self.controller.fabric
        self.asking, self.readout = Asking(self.controller), Readout(self.controller)
        self.datapaths: dict[str, MemoryDatapath] = {
            code: datapath_of(self.fabric, code) for code in self.fabric.codes
        }
        for datapath in self.datapaths.values():
            datapath.connect(self.controller)

    def settle(self) -> MemoryFabric:
        """Work off what is under way; trees that moved have been entered, old rules may stay."""
        for _ in range(4):
            self.controller._reconcile()
            for datapath in self.datapaths.values():
                datapath.deliver(self.controller)
        return self

    def add_trees(self, *trees: dict[str, object]) -> list[dict[str, Any]]:
        return self.asking.add_trees(json.dumps({"trees": trees}).encode())

    def add_group(self, **group: object) -> dict[str, Any]:
        return self.asking.add_group(json.dumps(group).encode())

    def igmp_v2_frame(self, site: str, kind: int, group: str) -> bytes:
        message = bytes([kind, 0, 0, 0]) + IPv4Address(group).packed
        message = message[:2] + checksum(message).to_bytes(2, "big") + message[4:]
        target = IPv4Address(group if kind == JOIN else _ALL_ROUTERS)
        source = IPv4Address(self.fabric.island_ip(site))
        return ipv4_frame(message, source, target, bytes(6), bytes(6))

    def igmp_v2(self, site: str, kind: int, group: str) -> None:
        """A host's own report of version 2 comes in."""
        self.packet_in(site, self.igmp_v2_frame(site, kind, group))

    def packet_in(self, site: str, frame: bytes, port: int = ACCESS_PORT) -> None:
        message = SimpleNamespace(
            datapath=self.datapaths[site], data=frame, match={"in_port": port}
        )
        self.controller.packet_in(SimpleNamespace(msg=message))

    def send(self, site: str, group: str) -> Journey:
        """Push a multicast packet of a site's island into the network."""
        switches = {code: datapath.switch for code, datapath in self.datapaths.items()}
        packet = {
            "eth_type": 0x0800,
            "ip_proto": 17,
            "eth_src": self.fabric.island_mac(site),
            "ipv4_src": self.fabric.island_ip(site),
            "ipv4_dst": group,
        }
        return PipelineNetwork(self.fabric, switches).send(site, packet)

    def group_counts(self) -> dict[str, int]:
        """Entries in each switch's group table."""
        return {code: len(datapath.switch.groups) for code, datapath in self.datapaths.items()}
