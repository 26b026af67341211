"""The controller of a run: our own, or somebody's Ryu application, as a process beside the network.

It listens on the management network, which exists only inside the run's namespaces.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from controller.client import NorthboundClient
from controller.fabric import CONTROLLER_IP, NORTHBOUND_PORT, OPENFLOW_PORT
from testbed.exit_status import how_it_ended
from topologies.errors import RunError

LISTEN = f"{CONTROLLER_IP}:{OPENFLOW_PORT}"
HTTP = f"{CONTROLLER_IP}:{NORTHBOUND_PORT}"
STOP_TIMEOUT_S = 5.0


def controller_command(
    topology_file: Path, log: Path, accelerators: Iterable[str] = ()
) -> list[str]:
    """Return the command of our own controller for the topology in a file."""
    state = log.with_name("controller-state.json")  # trees and groups outlive a restart
    command = [
        *(sys.executable, "-m", "controller", str(topology_file)),
        *("--listen", LISTEN, "--http", HTTP, "--log", str(log), "--state", str(state)),
    ]
    sites = ",".join(sorted(accelerators))
    return [*command, "--accelerators", sites] if sites else command


def foreign_command(application: Path, log: Path) -> list[str]:
    """Return the command that runs somebody's Ryu application in its place."""
    return [
        *(sys.executable, "-m", "controller", "run", str(application)),
        *("--listen", LISTEN, "--log", str(log)),
    ]


class ControllerProcess:
    """A started controller; `client` speaks to our own one's northbound API."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.with_suffix(".out").open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.client = NorthboundClient(f"http://{HTTP}")

    def exited(self) -> str | None:
        """Return what is known if the controller has ended by itself, or None."""
        code = self._process.poll()
        if code is None:
            return None
        return f"the controller {how_it_ended(code, self._log.with_suffix('.out'))}"

    def wait_listening(self, timeout_s: float) -> None:
        """Wait until the controller accepts switches; raises `RunError` if it does not."""
        deadline = time.monotonic() + timeout_s
        while not _listens(OPENFLOW_PORT):
            if (reason := self.exited()) is not None:
                raise RunError(reason)
            if time.monotonic() > deadline:
                raise RunError(f"the controller does not listen after {timeout_s:.0f} s")
            time.sleep(0.02)

    def close(self) -> None:
        """End the controller."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _listens(port: int) -> bool:
    """Whether a TCP socket of this network namespace listens on `port` (state 0A, proc(5))."""
    table = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    rows = (line.split() for line in table)
    return any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows)
