"""Build `linkd` from the sources beside this file: `python -m testbed.links.linkd.build`."""

from __future__ import annotations

from pathlib import Path

from testbed.native import SHARED, SHARED_UNITS
from topologies.errors import MachineError
from workloads.building import Recipe

SOURCES = Path(__file__).parent
PROGRAM = SOURCES / "build" / "linkd"
RECIPE = Recipe(
    name="linkd",
    product=PROGRAM,
    units=(*sorted(SOURCES.glob("*.c")), *SHARED_UNITS),
    folders=(SOURCES, SHARED),
    flags=("-O2", "-g"),
    failure=MachineError,
)
ensure_built = RECIPE.ensure_built

if __name__ == "__main__":
    RECIPE.main()
