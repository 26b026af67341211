"""A run in small, made of real parts: a bridge, nodes as Mininet makes them, islands on top."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed.deploy.fleet import Fleet
from testbed.deploy.island import Islands, start_islands
from testbed.deploy.island_files import IslandSeat
from testbed.deploy.process_table import read_facts

CLONE_NEWNET = 0x40000000
HOST_NETWORK = Path(f"/proc/{os.getppid()}/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def network_of(path: Path) -> Iterator[None]:
    """This thread, and those it starts, in another network namespace for a while."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(path, os.O_RDONLY)
    try:
        _checked(_libc.setns(other, CLONE_NEWNET))
        yield
    finally:
        _checked(_libc.setns(home, CLONE_NEWNET))
        os.close(other)
        os.close(home)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=20)


@dataclass
class Bench:
    """The run's root namespace with its bridges; the test's thread is inside."""

    run_directory: Path
    init: subprocess.Popen[bytes]
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def namespace(self) -> Path:
        return Path(f"/proc/{self.init.pid}/ns/net")

    def add_node(self, site: str) -> IslandSeat:
        number = len(self.nodes) + 1
        node = subprocess.Popen(
            ["mnexec", "-n", "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE
        )
        self.nodes[site] = node
        assert node.stdout is not None
        assert node.stdout.readline() == b"ready\n"
        for bridge, inside in (("mgmt", "mgmt0"), ("wan", "wan0")):
            port = f"{bridge}{number}"
            ip("link", "add", port, "type", "veth", "peer", inside, "netns", str(node.pid))
            ip("link", "set", port, "master", bridge, "up")
        commands = (
            "link set lo up",
            f"addr add 10.255.0.{number + 1}/16 dev mgmt0",
            f"addr add 10.0.0.{number}/16 dev wan0",
            "link set mgmt0 up",
            "link set wan0 up",
        )
        subprocess.run(
            ["nsenter", f"--net=/proc/{node.pid}/ns/net", "ip", "-batch", "-"],
            input="\n".join(commands).encode(),
            check=True,
            timeout=20,
        )
        return IslandSeat(site, node.pid, f"10.255.0.{number + 1}", f"10.0.0.{number}")

    def inside(self, site: str, *argv: str) -> str:
        """Output of a command in the node itself, beside its island."""
        enter = ["nsenter", "--target", str(self.nodes[site].pid), "--net", "--mount"]
        return subprocess.run(
            [*enter, *argv], check=True, timeout=20, capture_output=True
        ).stdout.decode()

    def outside(self) -> AbstractContextManager[None]:
        """This thread back in the host's network for a while."""
        return network_of(HOST_NETWORK)

    def commands(self) -> list[str]:
        """Command lines of all that runs in this run's networks, this process aside."""
        inside = self.namespaces()
        found = [fact for fact in read_facts() if fact.netns_inode in inside]
        return sorted(" ".join(fact.arguments) for fact in found if fact.pid != os.getpid())

    def namespaces(self) -> set[int]:
        """Inodes of every network namespace of this run."""
        pids = [self.init.pid, *(node.pid for node in self.nodes.values())]
        return {Path(f"/proc/{pid}/ns/net").stat().st_ino for pid in pids}

    def close(self) -> None:
        for process in (*self.nodes.values(), self.init):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(self.run_directory)


@contextmanager
def small_run() -> Iterator[Bench]:
    Path("/run/atoll").mkdir(mode=0o700, exist_ok=True)
    run_directory = Path(tempfile.mkdtemp(prefix="test-deploy-", dir="/run/atoll"))
    init = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE
    )
    assert init.stdout is not None
    assert init.stdout.readline() == b"ready\n"
    bench = Bench(run_directory, init)
    try:
        with network_of(bench.namespace):
            ip("link", "set", "lo", "up")
            for bridge in ("mgmt", "wan"):
                ip("link", "add", bridge, "type", "bridge")
                ip("link", "set", bridge, "up")
            ip("addr", "add", "10.255.0.1/16", "dev", "mgmt")
            yield bench
    finally:
        bench.close()


def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def bench() -> Iterator[Bench]:
    _needs_root()
    with small_run() as made:
        yield made


@pytest.fixture(scope="module")
def shared_bench() -> Iterator[Bench]:
    _needs_root()
    with small_run() as made:
        yield made


@pytest.fixture(scope="module")
def islands(shared_bench: Bench) -> Iterator[Islands]:
    """Three islands for all tests of a module that do no harm to them."""
    seats = [shared_bench.add_node(site) for site in ("AMS", "LON", "NYC")]
    with start_islands(shared_bench.run_directory, seats) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(islands: Islands) -> Iterator[Fleet]:
    with islands.fleet() as made:
        yield made
