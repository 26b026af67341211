"""How much one switch copies to eight receivers by a group of type ALL, and what that costs it.

    sudo .venv/bin/python bench/multicast.py [--repeat 3] [--seconds 3] [--json FILE]

A host sends datagrams that fill a packet of 9,000 bytes to a group address, faster from step to
step; a switch in user space, as emulations have one at each site, copies them to eight hosts. No
link is shaped. A step is *kept up with* if every copy arrives; the figure is the fastest such step,
in payload for each receiver, with the switch daemon's share of a core then, beside eight unicast
copies of the same from the sender. The receivers' interfaces count what arrived.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _report import Figure, Samples, arguments, conclude, measure, row_of

from testbed.emulation.switches import ALLOCATOR, BRIDGE, PRIORITIES, SCHEMA
from testbed.host_settings import wanted_settings
from testbed.links.namespace import NetworkNamespace
from testbed.links.trial import run
from testbed.supervisor import host_settings

RECEIVERS = 8
MTU_BYTES = 9000
PAYLOAD_BYTES = 8900
GROUP, PORT = "239.192.0.1", 7000
RATES = (1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 12_500, 15_000, 20_000, 25_000, 30_000)
SETTLE_S = 0.5

SENDER = """
import socket, sys, time
rate, seconds, size = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
targets = [(name, int(sys.argv[4])) for name in sys.argv[5].split(",")]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, 32, 64 << 20)  # SO_SNDBUFFORCE
udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
payload, start, sent = bytes(size), time.monotonic(), 0
while sent < rate * seconds:
    due = min(rate * seconds, (time.monotonic() - start) * rate)
    while sent < due:
        for target in targets:
            udp.sendto(payload, target)
        sent += 1
    time.sleep(0.0005)
print(sent, time.monotonic() - start)
"""


@dataclass(frozen=True)
class Step:
    """What came of one rate."""

    asked: int
    sent: int
    seconds: float
    arrived: tuple[int, ...]
    switch_pct: float

    @property
    def kept_up(self) -> bool:
        """Whether every receiver got every datagram, however fast they were sent."""
        return min(self.arrived) >= self.sent

    @property
    def is_senders_most(self) -> bool:
        """Whether the sender was the one that could not keep up."""
        return self.sent / self.seconds < 0.7 * self.asked

    @property
    def each_mbps(self) -> float:
        """Payload that the receiver with the fewest datagrams got."""
        return min(self.arrived) * PAYLOAD_BYTES * 8 / self.seconds / 1e6


class Star:
    """A switch with a sender and eight receivers, each host in a namespace of its own."""

    def __init__(self, stack: ExitStack, folder: Path, priority: str) -> None:
        self.folder = folder
        self.switch = _namespace(stack)
        self.hosts = [_namespace(stack) for _ in range(RECEIVERS + 1)]
        for number, host in enumerate(self.hosts):
            self._cable(host, number)
        self._start(stack, priority)

    def _cable(self, host: NetworkNamespace, number: int) -> None:
        with self.switch.entered():
            far = f"peer name wan0 mtu {MTU_BYTES} netns {host.path}"
            run(f"ip link add p{number} mtu {MTU_BYTES} up type veth {far}".split())
        with host.entered():
            run(f"ip link set wan0 up address 02:00:00:00:00:{number:02x}".split())
            run(f"ip address add 10.0.0.{number + 1}/24 dev wan0".split())
            run(["ip", "route", "add", "224.0.0.0/4", "dev", "wan0"])
            run(["ethtool", "-K", "wan0", "tx", "off"])
            for other in range(RECEIVERS + 1):
                neighbour = f"10.0.0.{other + 1} lladdr 02:00:00:00:00:{other:02x} dev wan0"
                if other != number:
                    run(f"ip neighbour add {neighbour}".split())

    def _start(self, stack: ExitStack, priority: str) -> None:
        run(["ovsdb-tool", "create", f"{self.folder}/conf.db", str(SCHEMA)])
        remote = f"--remote=punix:{self.folder}/db.sock"
        database = ["ovsdb-server", f"{self.folder}/conf.db", remote]
        self._daemon(stack, database)
        _until(self.folder / "db.sock")
        argv = [*PRIORITIES[priority], "ovs-vswitchd", f"unix:{self.folder}/db.sock"]
        self.pid = self._daemon(stack, argv)
        words = f"-- add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=netdev fail_mode=secure"
        words += " protocols=OpenFlow13 other_config:disable-in-band=true"
        for number in range(RECEIVERS + 1):
            words += f" -- add-port {BRIDGE} p{number} -- set interface p{number}"
            words += f" ofport_request={number + 1} mtu_request={MTU_BYTES}"
        run(["ovs-vsctl", f"--db=unix:{self.folder}/db.sock", *words.split()])
        self._rules()

    def _rules(self) -> None:
        buckets = ",".join(f"bucket=output:{number + 1}" for number in range(1, RECEIVERS + 1))
        self._openflow("add-group", f"group_id=1,type=all,{buckets}")
        self._openflow("add-flow", f"priority=9,ip,in_port=1,nw_dst={GROUP},actions=group:1")
        for number in range(RECEIVERS + 1):
            match = f"priority=5,ip,nw_dst=10.0.0.{number + 1}"
            self._openflow("add-flow", f"{match},actions=output:{number + 1}")

    def _openflow(self, verb: str, words: str) -> None:
        bridge = f"unix:{self.folder}/{BRIDGE}.mgmt"
        run(["ovs-ofctl", "-O", "OpenFlow13", verb, bridge, words])

    def _daemon(self, stack: ExitStack, argv: Sequence[str]) -> int:
        places = {name: str(self.folder) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR")}
        environment = {**places, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        with self.switch.entered():
            process = subprocess.Popen(
                [*argv, "-vconsole:off", "-vsyslog:off"],
                env={**environment, "GLIBC_TUNABLES": ALLOCATOR},
                stdin=subprocess.DEVNULL,
            )
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process.pid

    def step(self, rate: int, seconds: float, targets: str) -> Step:
        """Send at a rate for some seconds."""
        before, ran_ns = self._arrived(), _run_ns(self.pid)
        words = [str(rate), str(seconds), str(PAYLOAD_BYTES), str(PORT), targets]
        with self.hosts[0].entered():
            done = subprocess.run(
                [sys.executable, "-c", SENDER, *words], capture_output=True, text=True, check=True
            )
        sent, took_s = done.stdout.split()
        used_pct = 100 * (_run_ns(self.pid) - ran_ns) / 1e9 / float(took_s)
        time.sleep(SETTLE_S)
        arrived = tuple(b - a for a, b in zip(before, self._arrived(), strict=True))
        return Step(rate, int(sent), float(took_s), arrived, used_pct)

    def _arrived(self) -> list[int]:
        found = []
        for host in self.hosts[1:]:
            with host.entered():
                text = Path("/proc/thread-self/net/dev").read_text()
            (line,) = [row for row in text.splitlines() if row.strip().startswith("wan0:")]
            found.append(int(line.split(":")[1].split()[1]))
        return found


def _namespace(stack: ExitStack) -> NetworkNamespace:
    made = NetworkNamespace()
    stack.callback(made.close)
    with made.entered():
        run(["ip", "link", "set", "lo", "up"])
    return made


def _until(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.01)


def _run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def climb(star: Star, seconds: float, targets: str) -> Step:
    """Return the fastest step that was kept up with."""
    best = star.step(RATES[0], seconds, targets)
    for rate in RATES[1:]:
        step = star.step(rate, seconds, targets)
        if not step.kept_up:
            break
        best = max(best, step, key=lambda one: one.each_mbps)
        if step.is_senders_most:
            break
    return best


@contextmanager
def star(priority: str) -> Iterator[Star]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atoll-")))
        yield Star(stack, folder, priority)


def experiment(seconds: float) -> dict[str, float]:
    """Climb with a group, then with unicast copies, on one switch."""
    copies = ",".join(f"10.0.0.{number + 1}" for number in range(1, RECEIVERS + 1))
    with star("throughput") as made:
        group, unicast = climb(made, seconds, GROUP), climb(made, seconds, copies)
    return {
        "group ALL: each receiver": group.each_mbps,
        "group ALL: switch daemon": group.switch_pct,
        "unicast copies: each receiver": unicast.each_mbps,
        "unicast copies: switch daemon": unicast.switch_pct,
        "group / unicast": group.each_mbps / max(unicast.each_mbps, 1e-9),
    }


FIGURES = {
    "group ALL: each receiver": Figure("Mbit/s", "payload"),
    "group ALL: switch daemon": Figure("% of a core", "processor"),
    "unicast copies: each receiver": Figure("Mbit/s", "payload"),
    "unicast copies: switch daemon": Figure("% of a core", "processor"),
    "group / unicast": Figure("", "ratio"),
}


def main() -> int:
    parser = arguments("Copies by a switch to eight receivers.", repeat=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    holder = "bench-multicast"
    host_settings().acquire(holder, wanted_settings("cubic"))
    try:
        samples: Samples = measure([lambda: experiment(options.seconds)], options.repeat)
    finally:
        host_settings().release(holder)
    rows = [row_of(name, values, FIGURES[name]) for name, values in samples.items()]
    return conclude(rows, "multicast", options)


if __name__ == "__main__":
    sys.exit(main())
