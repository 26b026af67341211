"""Compile a program or a library from C, only when something it is made of is newer than it.

Whoever needs one builds it first, so that an edited source is never run as its old self. A module
with a `Recipe` builds it ahead of time as a program, `python -m workloads.innetwork.build`, which
prints the path of what is built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

WARNINGS = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wshadow")
SANITIZED = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)


def compiler() -> str | None:
    """Return the C compiler: `$CC`, gcc, clang or cc, or None where there is none."""
    names = (os.environ.get("CC", ""), "gcc", "clang", "cc")
    return next((name for name in names if name and shutil.which(name)), None)


@dataclass(frozen=True)
class Recipe:
    """What something is made of, and how.

    Attributes:
        name: what it is called where it cannot be built.
        product: the program or the library.
        units: the files that are compiled.
        folders: where these find what they include; a newer header there is a newer source.
        flags: of the compiler, beside its warnings.
        libraries: to link with, as `-lm`.
        failure: what is raised where it cannot be built.
        old_will_do: whether without a compiler a product is taken that is older than a source.
    """

    name: str
    product: Path
    units: tuple[Path, ...]
    folders: tuple[Path, ...]
    flags: tuple[str, ...]
    failure: type[Exception]
    libraries: tuple[str, ...] = ()
    old_will_do: bool = False

    def varied(self, product: Path, units: Iterable[Path], flags: tuple[str, ...]) -> Recipe:
        """Return the same for another product of some of the units and others, such as a test."""
        return replace(self, product=product, units=tuple(units), flags=flags)

    def is_fresh(self) -> bool:
        """Whether the product is there and no older than anything it is made of."""
        if not self.product.exists():
            return False
        built = self.product.stat().st_mtime_ns
        return all(source.stat().st_mtime_ns <= built for source in self._sources())

    def _sources(self) -> Iterator[Path]:
        yield from self.units
        for folder in self.folders:
            yield from folder.glob("*.h")

    def build(self) -> Path:
        """Build it, replaced in one step so that builders may run side by side; returns its path.

        Raises:
            Exception: as `failure` says: there is no compiler, or the compiler's first complaint.
        """
        name = compiler()
        if name is None:
            raise self.failure(
                f"no C compiler to build {self.name} with: apt-get install gcc libc6-dev"
            )
        self.product.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.product.with_name(f"{self.product.name}.{os.getpid()}")
        words = [name, *WARNINGS, *self.flags, *(f"-I{folder}" for folder in self.folders)]
        words += [*map(str, self.units), "-o", str(unfinished), *self.libraries]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = (line for line in done.stderr.splitlines() if "error" in line)
            complaint = next(errors, done.stderr.strip())
            raise self.failure(f"{self.name} does not compile: {complaint}")
        unfinished.replace(self.product)
        return self.product

    def ensure_built(self) -> Path:
        """Return the product, built first if it is missing or older than a source; see `build`."""
        taken = self.old_will_do and self.product.exists() and compiler() is None
        return self.product if taken or self.is_fresh() else self.build()

    def main(self) -> None:
        """Ensure that it is built and print its path, or end with one line that says why not."""
        try:
            print(self.ensure_built())
        except self.failure as error:
            sys.exit(str(error))
