"""What a machine can carry, worked out before a run instead of found out during one.

Every packet costs processor time at every hop, whatever its size, so a machine's budget is in
*packet-hops per second* and a network's demand is what its directions carry when all are full of
MTU-sized packets. TCP answers every second packet, which adds half. A run that asks for more is
limited by the machine and not by the emulated network, which makes its figures worthless.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.doctor.checks import Datapath, LinkBackend
from topologies.model import Topology

# Packet-hops one core carries each second, from measurements on two cores: 120,000 through shaped
# switch ports in user space; 8 x 48,000 replicated by tc in the kernel; 40,000 packets/s by a fifth
# of a core through linkd. Kernel switches between linkd's links pay for both, one after the other.
USERSPACE_HOPS_PER_CORE = 60_000.0
KERNEL_HOPS_PER_CORE = 192_000.0
LINKD_HOPS_PER_CORE = 200_000.0
PACKETS_PER_DATA_PACKET = 1.5


@dataclass(frozen=True)
class Capacity:
    """Demand of a network with every direction full, against what the machine carries.

    Attributes:
        demand_packet_hops_per_s: packets that all directions together hand on each second.
        ceiling_packet_hops_per_s: about how many this machine hands on.
    """

    demand_packet_hops_per_s: float
    ceiling_packet_hops_per_s: float

    @property
    def headroom(self) -> float:
        """Ceiling over demand: under 1 the machine is the bottleneck, not the network."""
        return self.ceiling_packet_hops_per_s / self.demand_packet_hops_per_s

    @property
    def fits(self) -> bool:
        """Whether all directions can be full at once."""
        return self.headroom >= 1.0

    def warning(self, rate_scale: float) -> str | None:
        """Return one line that names the rate scale which fits, or None where this one does."""
        if self.fits:
            return None
        return (
            f"with every link full this needs {self.demand_packet_hops_per_s:,.0f} packet-hops/s,"
            f" and this machine carries about {self.ceiling_packet_hops_per_s:,.0f}:"
            f" use --rate-scale {two_digits_below(rate_scale * self.headroom)} or less"
        )


def carrying_capacity(
    topology: Topology, cores: int, datapath: Datapath, backend: LinkBackend
) -> Capacity:
    """Estimate whether a machine carries a topology whose rates are already scaled.

    Rates in Mbit/s and MTU in bytes come from the topology. An island counts with no more than its
    site's links can take from it or bring to it.
    """
    wan = topology.wan_directions()
    full_mbps = sum(spec.rate_mbps for spec in wan.values())
    for code, access in topology.access.items():
        leaving = sum(spec.rate_mbps for way, spec in wan.items() if way.source == code)
        arriving = sum(spec.rate_mbps for way, spec in wan.items() if way.target == code)
        full_mbps += min(access.rate_mbps, leaving) + min(access.rate_mbps, arriving)
    data_packets_per_s = full_mbps * 1e6 / (8 * topology.mtu_bytes)
    return Capacity(
        demand_packet_hops_per_s=PACKETS_PER_DATA_PACKET * data_packets_per_s,
        ceiling_packet_hops_per_s=cores * hops_per_core(datapath, backend),
    )


def hops_per_core(datapath: Datapath, backend: LinkBackend) -> float:
    """Return about how many packet-hops a core carries each second."""
    if datapath == "userspace":
        return USERSPACE_HOPS_PER_CORE
    if backend == "netem":
        return KERNEL_HOPS_PER_CORE
    return 1 / (1 / KERNEL_HOPS_PER_CORE + 1 / LINKD_HOPS_PER_CORE)


def two_digits_below(value: float) -> str:
    """Write a positive number with two significant digits, rounded down so that it still fits."""
    exponent = int(f"{value:e}".partition("e")[2])
    decimals = max(0, 1 - exponent)
    step = 10.0 ** (1 - exponent)
    return f"{int(value * step) / step:.{decimals}f}"
