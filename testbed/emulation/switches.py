"""One Open vSwitch per site: a database and a switch daemon in the switch's own namespace.

One daemon for all switches polls every port of the network in one thread: at 50 switches a round
trip over two of them takes 2.5 ms and TCP falls to a quarter. A daemon pair per switch costs 25 MB
and 0.16 s, and keeps 0.4 ms and full rate at any size; two pairs in one namespace would collide on
the tap device `ovs-netdev`. The kernel's datapath lives in a network namespace too, so both
datapaths are built alike and differ in one word.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.node import Switch

from testbed.emulation.plan import port_interface
from testbed.exit_status import how_it_ended
from topologies.errors import MachineError, RunError

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
DATAPATH_TYPES = {"kernel": "system", "userspace": "netdev"}
BRIDGE = "br0"
OUTPUT_NAME = "output.log"
START_TIMEOUT_S = 300.0  # of daemons, under software emulation of a processor
# What switch daemons run under. Real-time keeps delays short however busy the machine is: round
# trips between neighbours in a line of 200 switches are 1 ms too long, and 160 ms without. But a
# daemon that preempts whoever sends to it wakes for each packet and forwards them one by one: 4 MB
# summed in the network over nine cities took 1.3 to 1.5 s so, and 0.73 to 0.83 s at the highest
# ordinary priority, where the worst of 72 idle round trips was 6 to 8 ms too long, not 3 to 5.
# As a batch job a daemon has that share of a processor too, but lets whoever sends to it go on.
PRIORITIES = {
    "realtime": ("chrt", "--rr", "10"),
    "throughput": ("nice", "-n", "-20", "chrt", "--batch", "0"),
    "ordinary": (),
}
# A turn of the daemon's main loop takes a buffer for 32 packets at each of its ports and frees what
# it did not need. glibc gives that memory back to the kernel each time, and has it cleared again:
# 40 % of a turn. So it keeps as much as that ever is.
ALLOCATOR = "glibc.malloc.trim_threshold=268435456:glibc.malloc.top_pad=16777216"


@dataclass(frozen=True)
class SwitchSpec:
    """What one switch is told: its ports, its controller and its datapath."""

    dpid: int
    ports: tuple[int, ...]
    controller: str
    datapath: str
    mtu_bytes: int


def bridge_transaction(spec: SwitchSpec) -> list[str]:
    """Return the one `ovs-vsctl` transaction that configures a switch.

    `secure` keeps the switch from forwarding by itself when it has no controller, and a port's
    number is asked for by name, so that OpenFlow numbers never depend on the order of creation.
    """
    words = ["--", "add-br", BRIDGE, "--", "set", "bridge", BRIDGE]
    words += [
        f"datapath_type={DATAPATH_TYPES[spec.datapath]}",
        "protocols=OpenFlow13",
        "fail_mode=secure",
        f"other_config:datapath-id={spec.dpid:016x}",
        "other_config:disable-in-band=true",
    ]
    for port in spec.ports:
        name = port_interface(port)
        words += ["--", "add-port", BRIDGE, name]
        words += ["--", "set", "interface", name, f"ofport_request={port}"]
        words += [f"mtu_request={spec.mtu_bytes}"]
    return [*words, "--", "set-controller", BRIDGE, spec.controller]


class OpenVSwitch(Switch):  # type: ignore[misc]  # Mininet has no type information
    """A Mininet switch in a namespace of its own, with its own database and daemon.

    Args:
        spec: what the switch is told.
        directory: its private files; short, since a socket's path has at most 107 characters.
        priority: of the daemon, a key of `PRIORITIES`.
    """

    def __init__(
        self, name: str, spec: SwitchSpec, directory: Path, priority: str, **params: Any
    ) -> None:
        super().__init__(name, dpid=f"{spec.dpid:x}", **{**params, "inNamespace": True})
        self.spec = spec
        self.directory = directory
        self.priority = priority
        self.daemons: list[subprocess.Popen[bytes]] = []

    @property
    def _database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    def start(self, controllers: Sequence[object]) -> None:
        """Start the database; `batchStartup` waits for it and does the rest."""
        self.directory.mkdir(parents=True)
        _create_database(self.directory / "conf.db")
        remote = f"--remote=punix:{self.directory}/db.sock"
        self._spawn("ovsdb-server", f"{self.directory}/conf.db", remote, *self._logging)

    def bring_up(self) -> None:
        """Start the switch daemon, once there is a database to read, and configure it."""
        _wait_for_socket(self.directory / "db.sock", self.daemons[0], self.name)
        priority = PRIORITIES[self.priority]
        self._spawn(*priority, "ovs-vswitchd", self._database, *self._logging)
        self.configure()

    @property
    def _logging(self) -> tuple[str, ...]:
        return ("-vconsole:off", "-vsyslog:off", "-vfile:info", "--log-file")

    def _spawn(self, *argv: str) -> None:
        environment = {
            "OVS_RUNDIR": str(self.directory),
            "OVS_LOGDIR": str(self.directory),
            "OVS_DBDIR": str(self.directory),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "GLIBC_TUNABLES": ALLOCATOR,
        }
        with (self.directory / OUTPUT_NAME).open("ab") as output:
            daemon = self.popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        self.daemons.append(daemon)

    def configure(self) -> None:
        """Make the bridge, its ports and its controller in one transaction."""
        argv = ["ovs-vsctl", f"--db={self._database}", f"--timeout={START_TIMEOUT_S:.0f}"]
        done = subprocess.run(
            [*argv, *bridge_transaction(self.spec)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RunError(f"switch {self.name} could not be configured: {done.stderr.strip()}")
        self._check_ports()

    def _check_ports(self) -> None:
        argv = ["ovs-vsctl", f"--db={self._database}", "--bare", "--columns=name,error"]
        done = subprocess.run(
            [*argv, "find", "interface", "error!=[]"], capture_output=True, text=True, check=False
        )
        if done.stdout.strip():
            raise RunError(f"switch {self.name}: {' '.join(done.stdout.split())}")

    @classmethod
    def batchStartup(  # noqa: N802 (Mininet's name)
        cls, switches: Iterable[OpenVSwitch], run: object = None
    ) -> list[OpenVSwitch]:
        """Bring all switches up side by side; called by Mininet after every `start`."""
        switches = list(switches)
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(OpenVSwitch.bring_up, switches))
        return switches

    def exited(self) -> str | None:
        """Return what is known of a daemon that has ended by itself, or None."""
        for daemon, kind in zip(self.daemons, ("database", "switch daemon"), strict=False):
            if (code := daemon.poll()) is not None:
                ended = how_it_ended(code, self.directory / OUTPUT_NAME)
                return f"{kind} of switch {self.name} {ended}"
        return None

    def kill(self) -> None:
        """End the daemons without waiting for it.

        What they would tidy up, ports and a datapath, goes with the switch's namespace.
        """
        for daemon in self.daemons:
            daemon.kill()

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the daemons, then the node."""
        self.kill()
        for daemon in self.daemons:
            daemon.wait()
        super().stop(deleteIntfs)


def _create_database(path: Path) -> None:
    if not SCHEMA.exists():
        raise MachineError("Open vSwitch is missing: apt-get install openvswitch-switch")
    template = path.parent.parent / "template.db"
    if not template.exists():
        subprocess.run(["ovsdb-tool", "create", str(template), str(SCHEMA)], check=True)
    shutil.copyfile(template, path)


def _wait_for_socket(path: Path, daemon: subprocess.Popen[bytes], name: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _accepts(path):
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise RunError(f"database of switch {name} did not start; see {path.parent}")
        time.sleep(0.005)


def _accepts(path: Path) -> bool:
    """Whether a server listens: its socket is in the file system a moment earlier than that."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
