"""Network namespaces for tests: each is a sleeping process, and gone with it."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Namespace:
    """A network namespace that lives as long as the process `pid`."""

    pid: int

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-n"]

    @property
    def proc_net_dev(self) -> Path:
        return Path(f"/proc/{self.pid}/net/dev")

    def run(self, command: str) -> str:
        done = subprocess.run(
            [*self.prefix, *shlex.split(command)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout


def _new_namespace() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["unshare", "--net", "sleep", "120"])
    outside = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process.pid}/ns/net").readlink() == outside:
        assert process.poll() is None and time.monotonic() < deadline, "no network namespace"
        time.sleep(0.01)
    return process


@pytest.fixture()
def make_namespace() -> Iterator[Callable[[], Namespace]]:
    """A function that makes a namespace without IPv6, whose own chatter would be counted."""
    processes: list[subprocess.Popen[bytes]] = []

    def make() -> Namespace:
        processes.append(_new_namespace())
        namespace = Namespace(processes[-1].pid)
        namespace.run(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
        )
        return namespace

    yield make
    for process in processes:
        process.kill()
        process.wait()
