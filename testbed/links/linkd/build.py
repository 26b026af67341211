"""Build `linkd` from the sources beside this file, only when they are newer than the program.

`python -m testbed.links.linkd.build` is what `make setup` runs; starting a back-end does the same,
so that an edited source is never run as its old self.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from topologies.errors import MachineError

SOURCES = Path(__file__).parent
BUILD = SOURCES / "build"
PROGRAM = BUILD / "linkd"
WARNINGS = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wshadow")
FAST = ("-O2", "-g")
SANITIZED = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)


def compiler() -> str:
    """Return the C compiler: `$CC`, gcc, clang or cc; raises MachineError when there is none."""
    for name in (os.environ.get("CC", ""), "gcc", "clang", "cc"):
        if name and shutil.which(name):
            return name
    raise MachineError("no C compiler to build linkd with: apt-get install gcc libc6-dev")


def is_fresh(program: Path, sources: Sequence[Path]) -> bool:
    """Whether `program` exists and is younger than every source."""
    if not program.exists():
        return False
    built = program.stat().st_mtime_ns
    return all(source.stat().st_mtime_ns <= built for source in sources)


def compile_program(program: Path, units: Sequence[Path], flags: Sequence[str] = FAST) -> Path:
    """Compile `units` into `program`, replaced in one step so that builders may run side by side.

    Raises:
        MachineError: with the compiler's first line of complaint.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    command = [compiler(), *WARNINGS, *flags, f"-I{SOURCES}", *map(str, units), "-o"]
    done = subprocess.run([*command, str(unfinished)], capture_output=True, text=True)
    if done.returncode != 0:
        complaint = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr.strip())
        raise MachineError(f"linkd does not compile: {complaint}")
    unfinished.replace(program)
    return program


def ensure_built() -> Path:
    """Return the program, built first if it is missing or older than a source.

    Raises:
        MachineError: when there is no compiler or it fails.
    """
    units = sorted(SOURCES.glob("*.c"))
    if not is_fresh(PROGRAM, [*units, *SOURCES.glob("*.h")]):
        compile_program(PROGRAM, units)
    return PROGRAM


if __name__ == "__main__":
    try:
        print(ensure_built())
    except MachineError as error:
        sys.exit(str(error))
