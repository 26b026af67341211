"""The daemon's pure parts behind a pipe, built with the address and undefined-behaviour checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.links.linkd.build import RECIPE, SOURCES
from testbed.native import SHARED
from tests.links.driver import Driver
from tests.native_driver import build_sanitized

NATIVE = Path(__file__).parent / "native"
PURE_UNITS = [
    SHARED / "words.c",
    *(SOURCES / f"{x}.c" for x in ("pool", "frame", "packet", "direction", "control", "timers")),
]


@pytest.fixture(scope="session")
def native_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="session")
def driver_program(native_folder: Path) -> Path:
    return build_sanitized(RECIPE, native_folder / "driver", [*PURE_UNITS, NATIVE / "driver.c"])


@pytest.fixture(scope="session")
def fuzz_program(native_folder: Path) -> Path:
    return build_sanitized(RECIPE, native_folder / "fuzz", [*PURE_UNITS, NATIVE / "fuzz.c"])


@pytest.fixture
def driver(driver_program: Path) -> Iterator[Driver]:
    made = Driver(driver_program)
    yield made
    assert made.close() == 0, "a sanitizer has complained"
