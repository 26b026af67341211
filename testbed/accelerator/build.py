"""Build `accelerator` from the sources in `native/`: `python -m testbed.accelerator.build`."""

from __future__ import annotations

from pathlib import Path

import workloads.innetwork
from testbed.native import SHARED, SHARED_UNITS
from topologies.errors import MachineError
from workloads.building import Recipe

SOURCES = Path(__file__).parent / "native"
PROTOCOL = Path(workloads.innetwork.__file__).parent / "native"
PROGRAM = Path(__file__).parent / "build" / "accelerator"
RECIPE = Recipe(
    name="the accelerator",
    product=PROGRAM,
    units=(*sorted(SOURCES.glob("*.c")), *SHARED_UNITS),
    folders=(SOURCES, SHARED, PROTOCOL),
    flags=("-O3", "-g"),  # -O3: sums are vectorized
    failure=MachineError,
)
ensure_built = RECIPE.ensure_built

if __name__ == "__main__":
    RECIPE.main()
