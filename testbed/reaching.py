"""How commands outside a run reach into it: its islands by SSH, its controller over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from controller.fabric import CONTROLLER_IP, NORTHBOUND_PORT
from testbed.deploy.remote import RunAccess
from testbed.ownership import the_running
from topologies.errors import RunError

NORTHBOUND_URL = f"http://{CONTROLLER_IP}:{NORTHBOUND_PORT}"


def access_to(run: str | None) -> RunAccess:
    """Return how to reach a running emulation, or the only one there is."""
    runtime = the_running(run)
    owner = runtime.owner()
    if owner is None or owner.first_process is None:
        raise RunError(f"run {runtime.run_id} is still being built; try again in a moment")
    return RunAccess(runtime.path, owner.first_process.pid)


def ask_controller(
    access: RunAccess, path: str, method: str = "GET", body: Mapping[str, object] | None = None
) -> int:
    """Ask the controller of a run and print its answer as JSON; returns the exit code."""
    ask = [sys.executable, "-m", "controller.client", NORTHBOUND_URL, path, method]
    if body is not None:
        ask.append(json.dumps(body))
    return subprocess.call(["nsenter", f"--net={access.network_namespace}", *ask])
