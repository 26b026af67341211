"""The small files that make an island look like a machine of its own: pure texts.

Each text is bound over the host's file of that name inside the island's mount namespace, so the
host's own file stays as it is. Two of them deserve a reason:

- `hosts`: Gloo and many others look their own host name up and use what they find. Debian's usual
  `127.0.1.1 NAME` then makes every worker listen where no other can reach it, and the rendezvous
  hangs. Here an island's name means its WAN address, on every island alike.
- `passwd` and `shadow`: log in as root with the island's `/tmp` as home, so that no program reads
  or writes the home of the host's root; and a locked root account, which Ubuntu ships and sshd
  refuses, is not locked here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.fabric import SSH_PORT

ISLAND_HOME = "/tmp"
ISLAND_SSH_DIRECTORY = "/run/ssh"
MANAGEMENT_SUFFIX = "-mgmt"
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class IslandSeat:
    """Where one island sits: the node that is its network, and its two addresses.

    Attributes:
        site: site code; in lower case it is the host name.
        shell_pid: a process inside the node's network and mount namespaces, such as the shell that
            Mininet keeps in each node.
        management_ip: address that sshd listens on, out of band.
        wan_ip: address of the island on the emulated WAN.
    """

    site: str
    shell_pid: int
    management_ip: str
    wan_ip: str

    @property
    def host_name(self) -> str:
        """The island's host name: its site code in lower case."""
        return self.site.lower()


def hosts_text(seats: Iterable[IslandSeat]) -> str:
    """Return `/etc/hosts` of every island: names of the WAN, and `-mgmt` names beside them."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    ordered = sorted(seats, key=lambda seat: seat.site)
    lines += [f"{seat.wan_ip} {seat.host_name}" for seat in ordered]
    lines += [f"{seat.management_ip} {seat.host_name}{MANAGEMENT_SUFFIX}" for seat in ordered]
    return "\n".join(lines) + "\n"


def passwd_text(host_passwd: str) -> str:
    """Return `/etc/passwd` of an island: the host's, with root at home in `ISLAND_HOME`."""
    lines = [line for line in host_passwd.splitlines() if not line.startswith("root:")]
    root = f"root:x:0:0:root:{ISLAND_HOME}:/bin/bash"
    return "\n".join([root, *lines]) + "\n"


def shadow_text() -> str:
    """Return `/etc/shadow` of an island: root has no password and is not locked (shadow(5))."""
    return "root:*::0:99999:7:::\n"


def resolver_text() -> str:
    """Return `/etc/resolv.conf` of an island: no name server, so unknown names fail at once."""
    return "options timeout:1 attempts:1\n"


def etc_files(seat: IslandSeat, seats: Iterable[IslandSeat], host_passwd: str) -> Mapping[str, str]:
    """Return name -> text of the files bound over `/etc` on one island."""
    return {
        "hostname": seat.host_name + "\n",
        "hosts": hosts_text(seats),
        "passwd": passwd_text(host_passwd),
        "shadow": shadow_text(),
        "resolv.conf": resolver_text(),
    }


def sshd_config_text(seat: IslandSeat, python: str = sys.executable) -> str:
    """Return the server configuration of one island (sshd_config(5)).

    It listens on the management address alone, accepts the run's key alone, and forwards nothing.
    `StrictModes` is off because it would judge the host's folders, which are not the island's.

    Args:
        seat: the island.
        python: interpreter whose folder comes first in a session's PATH.
    """
    path = f"{Path(python).parent}:{STANDARD_PATH}"
    return (
        f"ListenAddress {seat.management_ip}:{SSH_PORT}\n"
        f"HostKey {ISLAND_SSH_DIRECTORY}/host_key\n"
        f"AuthorizedKeysFile {ISLAND_SSH_DIRECTORY}/authorized_keys\n"
        f"PidFile {ISLAND_SSH_DIRECTORY}/sshd.pid\n"
        "AuthenticationMethods publickey\n"
        "PubkeyAuthentication yes\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
        "UsePAM no\n"
        "UseDNS no\n"
        "StrictModes no\n"
        "PermitUserRC no\n"
        "PermitUserEnvironment no\n"
        "DisableForwarding yes\n"
        "PrintMotd no\n"
        "PrintLastLog no\n"
        "MaxStartups 500\n"
        "MaxSessions 500\n"
        "LogLevel INFO\n"
        f'SetEnv "PATH={path}" ATOLL_SITE={seat.site} LANG=C.UTF-8\n'
        "Subsystem sftp internal-sftp\n"
    )
