"""Mininet builds the nodes and their cables; this module tells it what and sets each node up.

Called inside the run's own namespaces only. Mininet's host-wide habits are left out: it would
change limits and sysctls of the host at start, and its clean-up kills by name.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mininet.link import Link as Cable
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, Node

from controller.fabric import (
    CONTROLLER_IP,
    OPENFLOW_PORT,
    Fabric,
    accelerator_end,
    island_end,
)
from testbed import ownership
from testbed.emulation import settings
from testbed.emulation.plan import (
    MANAGEMENT_BRIDGE,
    MANAGEMENT_INTERFACE,
    WirePlan,
    accelerator_cable,
    plan_wires,
    port_interface,
)
from testbed.emulation.plan import wire_end_mac as end_mac
from testbed.emulation.settings import Command, IslandSettings
from testbed.emulation.switches import OpenVSwitch, SwitchSpec
from topologies.errors import RunError
from topologies.model import Topology
from topologies.routing import Routes

WIRE_ROOM = "wires"
_PARALLEL = 4


@dataclass(frozen=True)
class NetworkOptions:
    """Choices of a build that the topology does not make.

    Attributes:
        datapath: `kernel` or `userspace`.
        congestion_control: TCP's, in every island.
        realtime: whether the data path gets real-time priority.
        throughput: whether switch daemons rather move many packets than each at once.
        controller: where switches find their controller, in Open vSwitch's notation.
    """

    datapath: str
    congestion_control: str = "cubic"
    realtime: bool = True
    throughput: bool = False
    controller: str = f"tcp:{CONTROLLER_IP}:{OPENFLOW_PORT}"

    @property
    def switch_priority(self) -> str:
        """What switch daemons run under, a key of `switches.PRIORITIES`."""
        if not self.realtime:
            return "ordinary"
        return "throughput" if self.throughput else "realtime"


class Network:
    """Islands, switches, cables and the management network of one run; build it with `build`."""

    def __init__(
        self,
        topology: Topology,
        routes: Routes,
        fabric: Fabric,
        options: NetworkOptions,
        directory: Path,
    ) -> None:
        self.topology = topology
        self.fabric = fabric
        self.wires = plan_wires(topology, fabric)
        self._options = options
        self._directory = directory
        self._island_settings = IslandSettings(
            topology.mtu_bytes,
            options.congestion_control,
            settings.tcp_buffer_bytes(topology, routes),
            checksum_offload=options.datapath == "kernel",
        )
        self._net = _bare_mininet()
        self._room = self._net.addHost(WIRE_ROOM, cls=Node, inNamespace=False, ip=None)

    def build(self) -> None:
        """Make every node and cable, and set every kernel up; switches are not started yet."""
        run_here(settings.quiet_namespace())
        self._make_nodes()
        for wire in self.wires:
            self._lay(wire)
        for code in sorted(self.fabric.accelerators):
            self._lay_accelerator(code)
        self._lay_management()
        self._set_up()

    def start_switches(self) -> None:
        """Start and configure every switch; they connect to the controller by themselves."""
        self._net.start()

    def island(self, site: str) -> Node:
        """Return the Mininet node of a site's island."""
        return self._net[island_end(site)]

    def switch(self, site: str) -> OpenVSwitch:
        """Return the Mininet node of a site's switch."""
        switch: OpenVSwitch = self._net[site]
        return switch

    def accelerator(self, site: str) -> Node:
        """Return the Mininet node of a site's accelerator."""
        return self._net[accelerator_end(site)]

    def switches(self) -> tuple[OpenVSwitch, ...]:
        """Return every switch in order of the sites."""
        return tuple(self.switch(code) for code in self.fabric.codes)

    def owned_nodes(self) -> tuple[ownership.Node, ...]:
        """Return what has to be recorded of each node."""
        fabric = self.fabric
        islands = [
            _owned(self.island(code), "island", code, fabric.island_management_ip(code))
            for code in fabric.codes
        ]
        switches = [
            _owned(self.switch(code), "switch", code, fabric.switch_management_ip(code))
            for code in fabric.codes
        ]
        accelerators = [
            _owned(self.accelerator(code), "accelerator", code, "")
            for code in sorted(fabric.accelerators)
        ]
        return (*islands, *switches, *accelerators)

    def stop(self) -> None:
        """End switches and nodes; interfaces go with their namespaces."""
        for switch in self._net.switches:  # some may not have been made yet
            switch.kill()  # all before the first is waited for
        for switch in self._net.switches:
            switch.stop(deleteIntfs=False)
        for node in (*self._net.hosts, *self._net.switches):
            node.terminate()

    def _make_nodes(self) -> None:
        for code in self.fabric.codes:
            self._net.addHost(island_end(code), cls=Host, ip=None, mac=None)
            self._net.addSwitch(
                code,
                cls=OpenVSwitch,
                spec=self._switch_spec(code),
                directory=self._directory / f"s{self.fabric.dpid(code)}",
                priority=self._options.switch_priority,
            )
        for code in sorted(self.fabric.accelerators):
            self._net.addHost(accelerator_end(code), cls=Host, ip=None, mac=None)

    def _switch_spec(self, code: str) -> SwitchSpec:
        return SwitchSpec(
            self.fabric.dpid(code),
            tuple(self.fabric.ports(code)),
            self._options.controller,
            self._options.datapath,
            self.topology.mtu_bytes,
        )

    def _lay(self, wire: WirePlan) -> None:
        for side, (end, name) in enumerate(((wire.a, wire.end_a), (wire.b, wire.end_b))):
            self._cable(end.node, end.interface, end.mac, name, end_mac(wire.index, side))

    def _cable(self, node: str, interface: str, mac: str, room_end: str, room_mac: str) -> None:
        self._net.addLink(
            self._net[node],
            self._room,
            cls=Cable,
            intfName1=interface,
            intfName2=room_end,
            addr1=mac,
            addr2=room_mac,
        )

    def _lay_accelerator(self, code: str) -> None:
        accelerator, port = accelerator_cable(self.fabric, code)
        self._net.addLink(
            self._net[accelerator.node],
            self._net[port.node],
            cls=Cable,
            intfName1=accelerator.interface,
            intfName2=port.interface,
            addr1=accelerator.mac,
            addr2=port.mac,
        )

    def _lay_management(self) -> None:
        names = [name for code in self.fabric.codes for name in (island_end(code), code)]
        for number, name in enumerate(names):
            mac = f"02:03:{number >> 8:02x}:{number & 255:02x}:00:"
            self._cable(name, MANAGEMENT_INTERFACE, f"{mac}00", f"m{number}", f"{mac}01")
        members = [f"m{number}" for number in range(len(names))]
        run_here(settings.management_bridge(MANAGEMENT_BRIDGE, CONTROLLER_IP, members))

    def _set_up(self) -> None:
        ends = [name for wire in self.wires for name in (wire.end_a, wire.end_b)]
        run_here(settings.wire_end_commands(ends, self.topology.mtu_bytes))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(self._set_up_site, self.fabric.codes))

    def _set_up_site(self, code: str) -> None:
        fabric = self.fabric
        island = settings.island_commands(fabric.island_ip(code), self._island_settings)
        management = settings.management_address(fabric.island_management_ip(code))
        run_in(self.island(code), [*settings.quiet_namespace(), *management, *island])
        ports = [port_interface(port) for port in fabric.ports(code)]
        management = settings.management_address(fabric.switch_management_ip(code))
        switch = settings.switch_commands(ports, self.topology.mtu_bytes)
        run_in(self.switch(code), [*settings.quiet_namespace(), *management, *switch])
        if code in fabric.accelerators:
            own = settings.accelerator_commands(
                fabric.accelerator_ip(code),
                self.topology.mtu_bytes,
                self._island_settings.checksum_offload,
            )
            run_in(self.accelerator(code), [*settings.quiet_namespace(), *own])


def _bare_mininet() -> Mininet:
    setLogLevel("error")
    Mininet.inited = True  # its init() would write sysctls and limits of the host
    return Mininet(controller=None, autoSetMacs=False)


def _owned(node: Node, kind: str, site: str, management_ip: str) -> ownership.Node:
    inode = Path(f"/proc/{node.pid}/ns/net").stat().st_ino
    return ownership.Node(node.name, kind, site, node.pid, inode, management_ip)


def run_here(commands: Iterable[Command]) -> None:
    """Run commands in the current namespaces; the first that fails is a `RunError`."""
    _run_script([], commands, "the run's namespace")


def run_in(node: Node, commands: Iterable[Command]) -> None:
    """Run commands in a node's namespaces; the first that fails is a `RunError`."""
    _run_script(["mnexec", "-a", str(node.pid)], commands, node.name)


def _run_script(prefix: Sequence[str], commands: Iterable[Command], place: str) -> None:
    """One shell for all commands of a place: a process a command would take seconds."""
    script = "\n".join(shlex.join(command) for command in commands)
    done = subprocess.run(
        [*prefix, "sh", "-e", "-x"], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.startswith("+ ")][-1:]
        reason = [line for line in done.stderr.splitlines() if not line.startswith("+ ")][-1:]
        raise RunError(f"setting up {place} failed at `{''.join(last)[2:]}`: {''.join(reason)}")
