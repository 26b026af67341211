"""Two hosts and the wire between them, in namespaces of their own: where links are tried out.

This is a link as a run has it, without switches: each host's interface `wan0` is one end of a veth
pair, and both far ends lie in a third namespace, where a back-end joins them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType

from testbed.links.backend import Wire
from testbed.links.namespace import NetworkNamespace
from topologies.errors import MachineError
from topologies.model import Direction


def run(command: Sequence[str]) -> str:
    """Run a command and return its output; raises MachineError with its complaint."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MachineError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _mac(side: int) -> str:
    return f"02:00:00:00:00:0{side + 1}"


class Trial:
    """Pairs of hosts, each pair with a wire; use it in a `with` statement.

    Attributes:
        middle: the namespace of the wire ends.
        hosts: the two namespaces of each pair, `10.1.<pair>.1` and `10.1.<pair>.2`.
        wires: one for each pair, directed `A<pair>` to `B<pair>`.
    """

    def __init__(self, pairs: int = 1, mtu_bytes: int = 9000) -> None:
        self.middle = NetworkNamespace()
        self.hosts = [(NetworkNamespace(), NetworkNamespace()) for _ in range(pairs)]
        self.wires = [
            Wire(i, f"w{i}a", f"w{i}b", Direction(f"A{i}", f"B{i}")) for i in range(pairs)
        ]
        for pair in range(pairs):
            self._connect(pair, mtu_bytes)

    def _connect(self, pair: int, mtu_bytes: int) -> None:
        ends = (self.wires[pair].end_a, self.wires[pair].end_b)
        mtu = str(mtu_bytes)
        for side, (host, end) in enumerate(zip(self.hosts[pair], ends, strict=True)):
            with self.middle.entered():
                near = f"{end} mtu {mtu} up type veth"
                far = f"wan0 address {_mac(side)} mtu {mtu} netns {host.path}"
                run(f"ip link add {near} peer name {far}".split())
            with host.entered():
                for command in self._host_commands(pair, side):
                    run(command.split())

    def _host_commands(self, pair: int, side: int) -> list[str]:
        """Return what sets a host up so that it sends nothing by itself: frames are counted.

        The kernel asks anew for an address it has not heard from for a while, and IPv6 announces
        itself; both would be frames that nobody sent.
        """
        neighbour = f"{self.address(pair, 1 - side)} lladdr {_mac(1 - side)} nud permanent"
        return [
            *(
                f"sysctl -qe -w net.ipv6.conf.{which}.disable_ipv6=1"
                for which in ("all", "default")
            ),
            f"ip address add {self.address(pair, side)}/24 dev wan0",
            "ip link set wan0 up",
            "ip link set lo up",
            f"ip neighbour replace {neighbour} dev wan0",
        ]

    @staticmethod
    def address(pair: int, side: int) -> str:
        """The IPv4 address of a host: side 0 at end a, side 1 at end b."""
        return f"10.1.{pair}.{side + 1}"

    def close(self) -> None:
        """Let all namespaces go."""
        for namespace in (self.middle, *(host for pair in self.hosts for host in pair)):
            namespace.close()

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
