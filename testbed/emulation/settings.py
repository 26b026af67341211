"""Kernel settings of each node, as plain lists of commands; nothing here runs anything.

Sources of the less obvious ones: a userspace switch reads frames from packet sockets without their
checksum state, so islands must fill checksums in themselves (`tx off`); a path of 100 Mbit/s and
315 ms holds 4 MB in flight, so TCP's buffers follow from the largest bandwidth-delay product
(RFC 7323, section 1.1); IPv6 is off because its neighbour and router discovery would be the only
traffic that nobody asked for. Why TCP's window is kept over pauses, and why a receiver offers a
megabyte at once, is in `docs/prediction.md`, with what it brings.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from controller.fabric import (
    ACCELERATOR_INTERFACE,
    ISLAND_INTERFACE,
    PREFIX_LENGTH,
    WAN_NETWORK,
)
from testbed.emulation.plan import MANAGEMENT_INTERFACE
from topologies.model import Topology
from topologies.routing import Routes

Command = list[str]
_KERNEL_TCP_MAX_BYTES = 6 * 2**20
_FIRST_RECEIVE_BUFFER_BYTES = 2**20  # half is the first window; by default that is 7 segments
WAN_PREFIX_LENGTH = int(WAN_NETWORK.partition("/")[2])
MULTICAST = "224.0.0.0/4"


@dataclass(frozen=True)
class TcpSettings:
    """What decides how fast the islands' TCP opens its window.

    Attributes:
        initial_window_segments: what may be sent before the first acknowledgement (RFC 6928).
        slow_start_after_idle: whether a pause brings the window back to that.
    """

    initial_window_segments: int = 10
    slow_start_after_idle: bool = False


@dataclass(frozen=True)
class IslandSettings:
    """How an island's kernel is set, the same at every site."""

    mtu_bytes: int
    congestion_control: str
    tcp_buffer_bytes: int
    checksum_offload: bool
    tcp: TcpSettings = TcpSettings()


def largest_bdp_bytes(topology: Topology, routes: Routes) -> int:
    """Return the largest bandwidth-delay product of any pair: slowest rate times round trip."""
    rates = {code: spec.rate_mbps for code, spec in topology.access.items()}
    products = (
        min(rates[a], rates[b])
        * (routes.one_way_delay_ms(a, b) + routes.one_way_delay_ms(b, a))
        * 1000
        / 8
        for a, b in itertools.combinations(topology.codes, 2)
    )
    return int(max(products, default=0.0))


def tcp_buffer_bytes(topology: Topology, routes: Routes) -> int:
    """Return the ceiling of TCP's buffers: four products, never less than the kernel's own 6 MB.

    Half of a receive buffer is bookkeeping (tcp_adv_win_scale), and the queue adds to the product.
    """
    return max(_KERNEL_TCP_MAX_BYTES, 4 * largest_bdp_bytes(topology, routes))


def sysctl(name: str, value: object) -> Command:
    """Return the command that writes one sysctl of the current network namespace."""
    return ["sysctl", "-q", "-w", f"{name}={value}"]


def quiet_namespace() -> list[Command]:
    """Return what every namespace of a run gets first: no IPv6, loopback up."""
    return [
        sysctl("net.ipv6.conf.all.disable_ipv6", 1),
        sysctl("net.ipv6.conf.default.disable_ipv6", 1),
        ["ip", "link", "set", "lo", "up"],
    ]


def _interface(
    name: str, address: str, mtu_bytes: int, prefix_length: int = PREFIX_LENGTH
) -> list[Command]:
    return [
        ["ip", "link", "set", name, "mtu", str(mtu_bytes), "up"],
        ["ip", "address", "add", f"{address}/{prefix_length}", "dev", name],
    ]


def _on_wan(name: str, address: str, mtu_bytes: int, checksum_offload: bool) -> list[Command]:
    """The end of a cable to a switch: islands, accelerators and trees are all on its link."""
    offload = [] if checksum_offload else [["ethtool", "-K", name, "tx", "off"]]
    return [
        *offload,
        *_interface(name, address, mtu_bytes, WAN_PREFIX_LENGTH),
        ["ip", "route", "add", MULTICAST, "dev", name],
        sysctl("net.ipv4.conf.all.arp_ignore", 1),
        sysctl("net.ipv4.conf.all.arp_announce", 2),
    ]


def management_address(address: str) -> list[Command]:
    """Return the commands that give a node its place on the management network."""
    return _interface(MANAGEMENT_INTERFACE, address, 1500)


def island_commands(address: str, settings: IslandSettings) -> list[Command]:
    """Return the commands that set up an island's WAN interface and its TCP."""
    most_bytes = settings.tcp_buffer_bytes
    first_bytes = min(_FIRST_RECEIVE_BUFFER_BYTES, most_bytes)
    return [
        *_on_wan(ISLAND_INTERFACE, address, settings.mtu_bytes, settings.checksum_offload),
        sysctl("net.ipv4.tcp_congestion_control", settings.congestion_control),
        sysctl("net.ipv4.tcp_rmem", f"4096 {first_bytes} {most_bytes}"),
        sysctl("net.ipv4.tcp_wmem", f"4096 131072 {most_bytes}"),
        sysctl("net.ipv4.tcp_slow_start_after_idle", int(settings.tcp.slow_start_after_idle)),
        sysctl("net.ipv4.tcp_no_metrics_save", 1),
    ]


def accelerator_commands(address: str, mtu_bytes: int, checksum_offload: bool) -> list[Command]:
    """Return the commands that set up an accelerator's one interface."""
    return _on_wan(ACCELERATOR_INTERFACE, address, mtu_bytes, checksum_offload)


def switch_commands(interfaces: list[str], mtu_bytes: int) -> list[Command]:
    """Return the commands that bring a switch's ports up."""
    return [["ip", "link", "set", name, "mtu", str(mtu_bytes), "up"] for name in interfaces]


def wire_end_commands(names: list[str], mtu_bytes: int) -> list[Command]:
    """Return the commands that bring wire ends up, in the run's root namespace."""
    return [["ip", "link", "set", name, "mtu", str(mtu_bytes), "up"] for name in names]


def management_bridge(name: str, address: str, members: list[str]) -> list[Command]:
    """Return the commands that make the management bridge and attach its members."""
    return [
        ["ip", "link", "add", name, "type", "bridge"],
        ["ip", "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", name],
        ["ip", "link", "set", name, "up"],
        *(["ip", "link", "set", member, "master", name, "up"] for member in members),
    ]
