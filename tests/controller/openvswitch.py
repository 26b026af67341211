"""Real Open vSwitch switches and islands for root tests, in namespaces that die with the test.

One process tree in a PID, mount and network namespace of its own holds it all: a database, one
switch daemon with a bridge for each site (user-space datapath), veth pairs for links, a network
namespace for each island. When its first process is killed, the kernel removes everything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from controller.fabric import (
    ACCELERATOR_INTERFACE,
    ACCELERATOR_PORT,
    ACCESS_PORT,
    ISLAND_INTERFACE,
    WAN_NETWORK,
    Fabric,
)
from topologies.files import dump
from topologies.model import Topology

REPOSITORY = Path(__file__).parents[2]
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
HOLD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork")
CONTROLLER = "tcp:127.0.0.1:6653"
NOBODY = "tcp:127.0.0.1:6654"
ASK = (
    "import json, sys; from controller.client import NorthboundClient;"
    "client = NorthboundClient('http://127.0.0.1:8080'); print(json.dumps(eval(sys.argv[1])))"
)


def until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for a condition, with a generous limit."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"timed out waiting until {what}"
        time.sleep(0.1)


def first_child(pid: int) -> int:
    """Host's pid of a process's first child, waited for."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: bool(children.read_text().split()), f"{pid} has a child")
    return int(children.read_text().split()[0])


def _network(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


class Node(NamedTuple):
    """Where an island or an accelerator is attached, and its addresses."""

    interface: str
    port: int
    mac: str
    address: str


class SwitchLab:
    """Switches and islands of a topology; use as a context manager."""

    def __init__(self, topology: Topology, accelerators: Sequence[str] = ()) -> None:
        self.fabric = Fabric.of(topology, accelerators)
        self.directory = Path(tempfile.mkdtemp(prefix="ovs-", dir="/tmp"))
        self._started: list[subprocess.Popen[bytes]] = []
        self._islands: dict[str, int] = {}
        self._accelerators: dict[str, int] = {}
        self._pid = 0
        self._controller: subprocess.Popen[bytes] | None = None
        self.topology_file = self.directory / "topology.yaml"
        self.topology_file.write_text(dump(topology))

    def __enter__(self) -> SwitchLab:
        try:
            holder = self._start(
                [*HOLD, "--kill-child=KILL", "--mount-proc", "sleep", "infinity"], "holder"
            )
            self._pid = first_child(holder.pid)
            self._start_daemons()
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        for process in reversed(self._started):
            self.stop(process)
        shutil.rmtree(self.directory)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one started process; what it ran inside the namespaces goes with it."""
        process.kill()
        process.wait()

    def _start(self, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment()
            )
        self._started.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        paths = dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"), str(self.directory))
        return {**os.environ, **paths, "PYTHONPATH": str(REPOSITORY)}

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` in the switches' network namespace."""
        return ["nsenter", "-t", str(self._pid), "-m", "-n", "--", *argv]

    def run(self, *argv: str) -> str:
        """Run a command among the switches; its output."""
        return self._run(self.inside(argv))

    def on_island(self, site: str, *argv: str, check: bool = True) -> str:
        """Run a command on an island; its output."""
        return self._run(self.in_island(site, argv), check)

    def in_accelerator(self, site: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` in the network namespace of a site's accelerator."""
        return ["nsenter", "-t", str(self._accelerators[site]), "-n", "--", *argv]

    def in_island(self, site: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` in the network namespace of an island."""
        return ["nsenter", "-t", str(self._islands[site]), "-n", "--", *argv]

    def start(self, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        """Start a long command as it is, its output in a file of that name."""
        return self._start(argv, name)

    def _run(self, argv: Sequence[str], check: bool = True) -> str:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=60,
            cwd=self.directory,
        )
        assert done.returncode == 0 or not check, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def start_inside(self, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        """Start a long command among the switches, its output in a file of that name."""
        return self._start(["setpriv", "--pdeathsig", "KILL", *self.inside(argv)], name)

    def log(self, name: str) -> str:
        """Output so far of a command started under that name."""
        return (self.directory / f"{name}.log").read_text()

    def _start_daemons(self) -> None:
        self.run("ip", "link", "set", "lo", "up")
        database, socket = self.directory / "conf.db", f"{self.directory}/db.sock"
        self.run("ovsdb-tool", "create", str(database), str(SCHEMA))
        self.start_inside(["ovsdb-server", str(database), f"--remote=punix:{socket}"], "ovsdb")
        until(Path(socket).exists, "the database listens")
        self.vsctl("--no-wait", "init")
        self.start_inside(["ovs-vswitchd", f"unix:{socket}"], "vswitchd")

    def vsctl(self, *argv: str) -> str:
        """Run ovs-vsctl on this lab's database."""
        return self.run("ovs-vsctl", f"--db=unix:{self.directory}/db.sock", "-t", "20", *argv)

    def _build(self) -> None:
        for site in self.fabric.codes:
            self._add_island(site)
        for site in sorted(self.fabric.accelerators):
            self._add_accelerator(site)
        for site, neighbours in self.fabric.neighbours.items():
            for other in neighbours:
                if site < other:
                    self._add_link(self.port(site, other), self.port(other, site))
        words: list[str] = []
        for site in self.fabric.codes:
            words += self._bridge(site)
        self.vsctl(*words[1:])

    def bridge(self, site: str) -> str:
        """Name of a site's bridge."""
        return f"br{self.fabric.dpid(site)}"

    def port(self, site: str, end: str) -> str:
        """Name of the interface of a site's switch towards a neighbour or its island."""
        return f"s{self.fabric.dpid(site)}p{self.fabric.port_to(site, end)}"

    def _bridge(self, site: str) -> list[str]:
        bridge, dpid = self.bridge(site), f"{self.fabric.dpid(site):016x}"
        words = ["--", "add-br", bridge, "--", "set", "bridge", bridge]
        words += ["datapath_type=netdev", "protocols=OpenFlow13", "fail_mode=secure"]
        words += [f"other_config:datapath-id={dpid}", "other_config:disable-in-band=true"]
        for number, end in self.fabric.ports(site).items():
            name = self.port(site, end)
            words += ["--", "add-port", bridge, name]
            words += ["--", "set", "interface", name, f"ofport_request={number}"]
        return [*words, "--", "set-controller", bridge, NOBODY]

    def dial(self, target: str = CONTROLLER) -> None:
        """Point all switches at a controller, so that they connect at once, without back-off."""
        for destination in (NOBODY, target):
            words = [
                ("--", "set-controller", self.bridge(s), destination) for s in self.fabric.codes
            ]
            self.vsctl(*[word for part in words for word in part][1:])

    def _add_link(self, a: str, b: str) -> None:
        self.run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
        for name in (a, b):
            self.run("ip", "link", "set", name, "up")

    def _add_island(self, site: str) -> None:
        end = Node(
            ISLAND_INTERFACE, ACCESS_PORT, self.fabric.island_mac(site), self.fabric.island_ip(site)
        )
        self._islands[site] = self._add_node(site, "island", end)

    def _add_accelerator(self, site: str) -> None:
        mac, address = self.fabric.accelerator_mac(site), self.fabric.accelerator_ip(site)
        end = Node(ACCELERATOR_INTERFACE, ACCELERATOR_PORT, mac, address)
        self._accelerators[site] = self._add_node(site, "accelerator", end)

    def _add_node(self, site: str, kind: str, node: Node) -> int:
        """Make a node in a network namespace of its own; the pid of its first process."""
        holder = self.start_inside(["unshare", "--net", "sleep", "infinity"], f"{kind}-{site}")
        pid = self._in_own_network(holder.pid)
        switch_end = f"s{self.fabric.dpid(site)}p{node.port}"
        self.run("ip", "link", "add", switch_end, "type", "veth", "peer", "name", node.interface)
        self.run("ip", "link", "set", switch_end, "up")
        self.run("ip", "link", "set", node.interface, "netns", str(pid))
        words = f"""
            ip link set lo up
            ip link set {node.interface} address {node.mac} up
            ip address add {node.address}/16 dev {node.interface}
            ip route add {WAN_NETWORK} dev {node.interface}
            ip route add 224.0.0.0/4 dev {node.interface}
            ethtool -K {node.interface} tx off
        """
        self._run(["nsenter", "-t", str(pid), "-n", "--", "sh", "-e", "-c", words])
        return pid

    def _in_own_network(self, pid: int) -> int:
        others = {_network(self._pid), _network("self")}
        until(lambda: _network(pid) not in others, f"{pid} has a network of its own")
        return pid

    def ensure_controller(self) -> None:
        """Have the controller of this lab's topology running and ready."""
        if self._controller is None:
            words = [str(self.topology_file), "--listen", "127.0.0.1:6653"]
            words += ["--accelerators", ",".join(sorted(self.fabric.accelerators))]
            words += ["--state", str(self.directory / "state.json")]
            self._controller = self.start_controller(*words, name="controller")
        self.ask("client.wait_ready(60)")

    def stop_controller(self) -> None:
        """Stop that controller, if it runs."""
        if self._controller is not None:
            self.stop(self._controller)
            self._controller = None

    def start_controller(self, *argv: str, name: str) -> subprocess.Popen[bytes]:
        """Start `python -m controller` with these words, and have the switches dial it."""
        return self.start_python("-m", "controller", *argv, name=name)

    def start_python(self, *argv: str, name: str) -> subprocess.Popen[bytes]:
        """Start a controller by these words to Python, and have the switches dial it."""
        until(lambda: not self.listens(), "the address is free")
        process = self.start_inside([sys.executable, "-W", "ignore", *argv], name)
        until(lambda: self.listens() or process.poll() is not None, "the controller listens")
        self.dial()
        return process

    def listens(self) -> bool:
        """Whether somebody listens for switches."""
        return ":6653" in self.run("ss", "-Hltn")

    def asking(self, expression: str, name: str) -> subprocess.Popen[bytes]:
        """Begin to evaluate such an expression, and do not wait for it."""
        return self.start_inside([sys.executable, "-W", "ignore", "-c", ASK, expression], name)

    def ask(self, expression: str) -> Any:
        """Evaluate an expression on the controller's `client` among the switches."""
        return json.loads(self.run(sys.executable, "-W", "ignore", "-c", ASK, expression))

    def pings(self, site: str, to: str, count: int = 2) -> bool:
        """Whether every ping from one island to another is answered."""
        text = self.on_island(
            site,
            *("ping", "-c", str(count), "-i", "0.2", "-W", "2", self.fabric.island_ip(to)),
            check=False,
        )
        return " 0% packet loss" in text
