"""Build `accelerator` from the sources in `native/`, only when they are newer than the program.

`python -m testbed.accelerator.build` is what `make setup` runs; starting an accelerator does the
same, so that an edited source is never run as its old self.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import workloads.innetwork
from testbed.links.linkd.build import WARNINGS, compiler, is_fresh
from topologies.errors import MachineError

SOURCES = Path(__file__).parent / "native"
PROTOCOL = Path(workloads.innetwork.__file__).parent / "native"
PROGRAM = Path(__file__).parent / "build" / "accelerator"
FAST = ("-O3", "-g")  # -O3: sums are vectorized


def compile_program(program: Path, units: Sequence[Path], flags: Sequence[str] = FAST) -> Path:
    """Compile `units` into `program`, replaced in one step so that builders may run side by side.

    Raises:
        MachineError: with the compiler's first line of complaint.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    includes = (f"-I{SOURCES}", f"-I{PROTOCOL}")
    command = [compiler(), *WARNINGS, *flags, *includes, *map(str, units), "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        complaint = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr.strip())
        raise MachineError(f"the accelerator does not compile: {complaint}")
    unfinished.replace(program)
    return program


def ensure_built() -> Path:
    """Return the program, built first if it is missing or older than a source.

    Raises:
        MachineError: when there is no compiler or it fails.
    """
    units = sorted(SOURCES.glob("*.c"))
    headers = [*SOURCES.glob("*.h"), *PROTOCOL.glob("*.h")]
    if not is_fresh(PROGRAM, [*units, *headers]):
        compile_program(PROGRAM, units)
    return PROGRAM


if __name__ == "__main__":
    try:
        print(ensure_built())
    except MachineError as error:
        sys.exit(str(error))
