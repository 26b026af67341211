"""Run by a test as process 1 of namespaces of its own: builds three cities and calibrates them.

It prints one JSON object: the calibration of the WAN as built, the sentence that a wrong link gives
after it was changed behind the topology's back, and what the monitor saw meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.calibration import CalibrationError, calibrate
from testbed.emulation.emulation import Emulation, EmulationOptions, emulation
from testbed.emulation.network import NetworkOptions
from testbed.monitor import FidelityMonitor
from testbed.ownership import RuntimeDirectory
from topologies.files import load
from topologies.model import Direction

WRONG = (
    (Direction("AMS", "FRA"), {"rate_mbps": 80.0}),
    (Direction("FRA", "LON"), {"one_way_delay_ms": 7.0}),
    (Direction.up("LON"), {"loss_pct": 20.0}),
)


def error_after(wan: Emulation, direction: Direction, change: Mapping[str, float]) -> str:
    """Return what calibration says after a change; the change is taken back."""
    before = wan.links.spec(direction)
    wan.links.change(direction, **change)
    try:
        calibrate(wan).require_all()
    except CalibrationError as error:
        return str(error)
    finally:
        wan.links.change(direction, **{name: getattr(before, name) for name in change})
    return ""


def main(directory: Path) -> None:
    runtime = RuntimeDirectory(directory.name, directory.parent)
    options = EmulationOptions(NetworkOptions("userspace"), "linkd")
    topology = load("three_city").scaled(0.01)
    with emulation(topology, options, runtime, lambda _: None) as wan:
        with FidelityMonitor(wan, directory / "fidelity.jsonl", interval_s=0.2) as monitor:
            built = calibrate(wan)
        errors = {str(way): error_after(wan, way, change) for way, change in WRONG}
        print(
            json.dumps(
                {
                    "calibration": built.to_json(),
                    "errors": errors,
                    "samples": (directory / "fidelity.jsonl").read_text().splitlines(),
                    "reasons": monitor.reasons(),
                }
            )
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
