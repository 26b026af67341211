"""Build the shared library of the endpoint, only when a source is newer than it.

`python -m workloads.innetwork.build` builds it ahead of time and prints its path. Whoever needs it
builds it too, so that an edited source is never run as its old self; where there is no compiler
the library that is there is taken as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from workloads.errors import WorkloadError

SOURCES = Path(__file__).parent / "native"
BUILD = SOURCES / "build"
LIBRARY = BUILD / "libatoll_endpoint.so"
UNITS = ("codec.c", "flow.c", "interface.c", "member.c", "sockets.c")
WARNINGS = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wshadow")
FLAGS = ("-O3", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-ffp-contract=off")


class BuildError(WorkloadError):
    """The shared library is missing and cannot be built here: the text says why."""


def compiler() -> str | None:
    """Return the C compiler: `$CC`, gcc, clang or cc, or None where there is none."""
    names = (os.environ.get("CC", ""), "gcc", "clang", "cc")
    return next((name for name in names if name and shutil.which(name)), None)


def sources() -> list[Path]:
    """Return every file that the library is made of."""
    return [SOURCES / unit for unit in UNITS] + sorted(SOURCES.glob("*.h"))


def is_fresh(library: Path = LIBRARY) -> bool:
    """Whether the library exists and is no older than any source."""
    if not library.exists():
        return False
    built = library.stat().st_mtime_ns
    return all(source.stat().st_mtime_ns <= built for source in sources())


def build(library: Path = LIBRARY, flags: tuple[str, ...] = FLAGS) -> Path:
    """Compile the library, replaced in one step so that builders may run side by side.

    Raises:
        BuildError: there is no compiler, or it fails; with its first complaint.
    """
    name = compiler()
    if name is None:
        raise BuildError("no C compiler for the endpoint: apt-get install gcc libc6-dev")
    library.parent.mkdir(parents=True, exist_ok=True)
    unfinished = library.with_name(f"{library.name}.{os.getpid()}")
    units = [str(SOURCES / unit) for unit in UNITS]
    command = [name, *WARNINGS, *flags, *units, "-o", str(unfinished), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        complaint = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr.strip())
        raise BuildError(f"the endpoint does not compile: {complaint}")
    unfinished.replace(library)
    return library


def ensure_built() -> Path:
    """Return the library, built first if it is missing or older than a source.

    Raises:
        BuildError: it is missing, and there is no compiler or it fails.
    """
    if is_fresh() or (LIBRARY.exists() and compiler() is None):
        return LIBRARY
    return build()


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{ensure_built()}\n")
    except BuildError as error:
        sys.exit(str(error))
