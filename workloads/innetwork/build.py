"""Build the shared library of the endpoint: `python -m workloads.innetwork.build`.

Where there is no compiler, the library that is there is taken as it is.
"""

from __future__ import annotations

from pathlib import Path

from workloads.building import Recipe
from workloads.errors import WorkloadError

SOURCES = Path(__file__).parent / "native"
LIBRARY = SOURCES / "build" / "libatoll_endpoint.so"


class BuildError(WorkloadError):
    """The shared library is missing and cannot be built here: the text says why."""


RECIPE = Recipe(
    name="the endpoint",
    product=LIBRARY,
    units=tuple(sorted(SOURCES.glob("*.c"))),
    folders=(SOURCES,),
    flags=("-O3", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-ffp-contract=off"),
    libraries=("-lm",),
    failure=BuildError,
    old_will_do=True,
)
ensure_built = RECIPE.ensure_built

if __name__ == "__main__":
    RECIPE.main()
