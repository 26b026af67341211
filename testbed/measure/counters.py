"""Bytes, packets and drops of every link direction, from the kernel's own interface counters.

A link is two wire ends, `w<n>a` and `w<n>b`, in the run's root namespace, with the link back-end
between them. What node A sends comes *in* at `w<n>a` and, delayed and shaped, goes *out* at
`w<n>b` to node B:

    node A ---- w<n>a  [link back-end]  w<n>b ---- node B
           A>B: rx                      tx
           B>A: tx                      rx

The kernel counts both without being asked (`/proc/net/dev`, see proc_net_dev(5)), so sampling
costs one small file a time, and nothing can be missed as it can in a packet capture.

What a counter counts: bytes of the Ethernet frame without its checksum. A segment that the sender
hands down whole (segmentation offload) is one packet and has its headers counted once, so that
payload = bytes - headers x packets holds with and without offload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from topologies.errors import RunError
from topologies.model import Direction

PROC_NET_DEV = Path("/proc/net/dev")
_HEADER_LINES = 2
_COLUMNS = 16


@dataclass(frozen=True)
class InterfaceCounters:
    """One interface's absolute counters since it was made."""

    rx_bytes: int
    rx_packets: int
    rx_drops: int
    tx_bytes: int
    tx_packets: int
    tx_drops: int


@dataclass(frozen=True)
class DirectionCounters:
    """One direction's absolute counters: what entered the link, what left it.

    `drops` are what the wire ends' interfaces or the link back-end say they dropped.
    """

    bytes_in: int
    packets_in: int
    bytes_out: int
    packets_out: int
    drops: int


@dataclass(frozen=True)
class WireEnds:
    """The interfaces at which a direction enters and leaves its link."""

    entry: str
    exit: str


def parse_proc_net_dev(text: str) -> dict[str, InterfaceCounters]:
    """Read the text of `/proc/net/dev`; raises ValueError for a line of another shape."""
    return dict(_interface(line) for line in text.splitlines()[_HEADER_LINES:])


def _interface(line: str) -> tuple[str, InterfaceCounters]:
    name, colon, rest = line.rpartition(":")
    values = rest.split()
    if not colon or len(values) != _COLUMNS:
        raise ValueError(f"{line!r} is not a line of /proc/net/dev")
    rx_bytes, rx_packets, _, rx_drops = map(int, values[:4])
    tx_bytes, tx_packets, _, tx_drops = map(int, values[8:12])
    return name.strip(), InterfaceCounters(
        rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops
    )


def wire_ends(wires: Mapping[int, Direction]) -> dict[Direction, WireEnds]:
    """Return where each direction enters and leaves, both directions of every wire.

    Args:
        wires: for wire number n the direction from the node at `w<n>a` to the node at `w<n>b`.
    """
    ends: dict[Direction, WireEnds] = {}
    for number, forward in sorted(wires.items()):
        ends[forward] = WireEnds(f"w{number}a", f"w{number}b")
        ends[forward.reverse] = WireEnds(f"w{number}b", f"w{number}a")
    return ends


def direction_counters(
    interfaces: Mapping[str, InterfaceCounters], ends: Mapping[Direction, WireEnds]
) -> dict[Direction, DirectionCounters]:
    """Turn interface counters into direction counters; raises RunError for a missing wire end."""
    missing = sorted({x for e in ends.values() for x in (e.entry, e.exit)} - set(interfaces))
    if missing:
        raise RunError(f"wire ends are gone: {', '.join(missing)}")
    return {
        direction: _joined(interfaces[end.entry], interfaces[end.exit])
        for direction, end in ends.items()
    }


def _joined(entry: InterfaceCounters, leave: InterfaceCounters) -> DirectionCounters:
    return DirectionCounters(
        bytes_in=entry.rx_bytes,
        packets_in=entry.rx_packets,
        bytes_out=leave.tx_bytes,
        packets_out=leave.tx_packets,
        drops=entry.rx_drops + leave.tx_drops,
    )


def read_counters(
    ends: Mapping[Direction, WireEnds], proc_net_dev: Path = PROC_NET_DEV
) -> dict[Direction, DirectionCounters]:
    """Read every direction's counters from the namespace whose `/proc/net/dev` this is."""
    return direction_counters(parse_proc_net_dev(proc_net_dev.read_text()), ends)
