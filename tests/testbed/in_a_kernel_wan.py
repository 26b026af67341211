"""Run by a test as process 1 of namespaces of its own: three cities on the kernel's own datapath.

It prints one JSON object of what stood: round trips, what the kernel says of each switch's
datapath, and how many directions netem shapes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from testbed.emulation.emulation import Emulation, EmulationOptions, emulation
from testbed.emulation.network import NetworkOptions
from testbed.measure.reach import Probing, asked_round_trips, measure
from testbed.ownership import RuntimeDirectory
from topologies.files import load

# On an emulated processor an interpreter needs seconds to start.
PROBING = Probing(probes=3, interval_ms=50.0, timeout_ms=40_000.0, start_after_s=15.0)


def inside(pid: int, *command: str) -> str:
    enter = ["mnexec", "-a", str(pid)]
    return subprocess.run([*enter, *command], capture_output=True, text=True, check=True).stdout


def round_trips(wan: Emulation) -> list[dict[str, Any]]:
    codes = wan.topology.codes
    prefixes = {code: wan.island_prefix(code) for code in codes}
    addresses = {code: wan.fabric.island_ip(code) for code in codes}
    reach = measure(prefixes, addresses, asked_round_trips(wan.routes), PROBING)
    return [
        {"pair": f"{x.source}>{x.target}", "asked_ms": x.asked_ms, "median_ms": x.median_ms}
        for x in reach.round_trips
    ]


def look(wan: Emulation) -> dict[str, Any]:
    trips = round_trips(wan)
    switches = wan.network.switches()
    shown = {switch.name: inside(switch.pid, "ovs-dpctl", "show") for switch in switches}
    qdiscs = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True)
    return {
        "round_trips": trips,
        "datapaths": shown,
        "netem_directions": len(re.findall(r"qdisc netem .* rate ", qdiscs.stdout)),
        "failure": wan.failure(),
        "bring_up_s": wan.bring_up_s,
    }


def main(directory: Path) -> None:
    runtime = RuntimeDirectory(directory.name, directory.parent)
    options = EmulationOptions(NetworkOptions("kernel"), "netem")
    with emulation(load("three_city").scaled(0.01), options, runtime, print) as wan:
        found = look(wan)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
