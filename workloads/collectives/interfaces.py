"""The one network interface that carries the collectives.

Left alone, gloo binds to whatever address the host name resolves to. Where that is 127.0.1.1, as
Debian's own hosts file has it, the other workers connect to themselves and wait. So the interface
is always named, and named to gloo.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from dataclasses import dataclass

from workloads.errors import UsageError

SIOCGIFADDR = 0x8915
INTERFACE_VARIABLE = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True)
class Interface:
    """A network interface and its IPv4 address."""

    name: str
    address: str


def choose_interface(requested: str | None, master_address: str) -> Interface:
    """Return the interface asked for, or else the one that leads to the rendezvous.

    Args:
        requested: an interface's name, or None or "" to choose.
        master_address: host name or address of the rendezvous.

    Raises:
        UsageError: the name is not that of one interface with an IPv4 address.
    """
    if not requested:
        return _interface_toward(master_address)
    address = ipv4_address(requested)
    if address is None:
        raise UsageError(
            f"interface {requested}: no such interface with an IPv4 address; "
            f"name one of {', '.join(_usable_names())}"
        )
    return Interface(requested, address)


def ipv4_address(interface: str) -> str | None:
    """Return the first IPv4 address of an interface, or None where it has none."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def _usable_names() -> list[str]:
    names = (name for _, name in socket.if_nameindex())
    return sorted(name for name in names if ipv4_address(name) is not None)


def _interface_toward(host: str) -> Interface:
    local = _local_address_toward(host)
    if ipaddress.IPv4Address(local).is_loopback:
        return Interface("lo", local)
    for name in _usable_names():
        if ipv4_address(name) == local:
            return Interface(name, local)
    raise UsageError(f"no interface has {local}, the address toward {host}: name one")


def _local_address_toward(host: str) -> str:
    """Return the address from which the kernel would send to `host`; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError as error:
            raise UsageError(f"MASTER_ADDR={host}: {error.strerror or error}") from error
        address: str = probe.getsockname()[0]
    return address
