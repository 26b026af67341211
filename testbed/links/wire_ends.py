"""Wire ends are not hosts: the kernel must not speak on them.

A wire end lies in the run's root namespace and has an IP stack above it like any interface. Left
alone, that stack answers ARP requests that a node broadcasts, and announces itself by IPv6
multicast: frames on the link which no node has sent.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from topologies.errors import MachineError


def silence(interface: str) -> None:
    """Keep the kernel's IP stack off an interface of the current network namespace.

    Raises:
        MachineError: when there is no such interface or it cannot be changed.
    """
    knob = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if knob.exists():
        knob.write_text("1")
    command = ["ip", "link", "set", "dev", interface, "arp", "off"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MachineError(f"wire end {interface} cannot be set up: {done.stderr.strip()}")
