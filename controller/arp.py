"""ARP answered from the model: who has which address is known, so nobody needs to be asked.

RFC 826. Flooding a request through a mesh would circle; asking the owner would cost a round trip
over the WAN. The controller answers at the asker's own switch in the owner's name.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.compile import ARP_REQUEST, ETH_TYPE_ARP
from controller.shim import arp, ethernet, packet

_ARP_REPLY = 2
_SMALLEST_FRAME_BYTES = 42


def answer(frame: bytes, mac_of: Callable[[str], str | None]) -> bytes | None:
    """The reply to an ARP request, or None where silence is right.

    Silence is right for what is no request, for an unknown address, and for a host that asks for
    its own address, which is how it finds out whether another has it (RFC 5227).

    Args:
        frame: Ethernet frame as received.
        mac_of: the Ethernet address behind an IPv4 address, if any.
    """
    asked = _request(frame)
    owner = None if asked is None else mac_of(asked.dst_ip)
    if asked is None or owner is None or asked.src_mac == owner:
        return None
    reply = packet.Packet()
    reply.add_protocol(ethernet.ethernet(asked.src_mac, owner, ETH_TYPE_ARP))
    reply.add_protocol(
        arp.arp(
            opcode=_ARP_REPLY,
            src_mac=owner,
            src_ip=asked.dst_ip,
            dst_mac=asked.src_mac,
            dst_ip=asked.src_ip,
        )
    )
    reply.serialize()
    return bytes(reply.data)


def _request(frame: bytes) -> arp.arp | None:
    if len(frame) < _SMALLEST_FRAME_BYTES:
        return None
    found = packet.Packet(frame).get_protocol(arp.arp)
    if found is None or found.opcode != ARP_REQUEST:
        return None
    return found
