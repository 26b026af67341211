"""Three real cities: links are found right, and exactly the one that is made wrong is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.host_settings import wanted_settings
from testbed.isolation import isolated
from testbed.supervisor import host_settings

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("in_a_wan.py")


@pytest.fixture(scope="module")
def found(undisturbed: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    holder = f"test-calibration-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="atoll-"))  # short: sockets' paths are
    host_settings().acquire(holder, wanted_settings("cubic"))
    try:
        done = undisturbed(lambda: run_inside(folder))
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        host_settings().release(holder)
        shutil.rmtree(folder)


def run_inside(folder: Path) -> subprocess.CompletedProcess[str]:
    own = Path(tempfile.mkdtemp(dir=folder))
    return subprocess.run(
        isolated([sys.executable, str(INSIDE), str(own)]),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def named(error: str) -> list[str]:
    """The directions that an error names."""
    return re.findall(r"[:;] ([\w.]+>[\w.]+): ", error)


def test_links_as_built_are_what_the_topology_asks_for(found: dict[str, Any]) -> None:
    calibration = found["calibration"]
    assert len(calibration["directions"]) == 12  # three links and three access ports, both ways
    assert calibration["within_tolerance"]
    assert abs(calibration["worst_rate_error_pct"]) <= 2.0
    for row in calibration["directions"]:
        assert row["achieved_delay_ms"] > row["asked_delay_ms"]  # nothing comes early
        assert (row["lost"], row["unasked_drops"]) == (0, 0)


@pytest.mark.parametrize(
    ("direction", "fault"),
    [
        ("AMS>FRA", r"rate asked 100 Mbit/s, achieved (79|80)(\.\d+)?"),
        ("FRA>LON", r"one-way delay asked 4\.96 ms, median 7\.\d+"),
        ("LON.island>LON", r"loss asked 0 %, \d+ of \d+ frames were lost"),
    ],
)
def test_a_link_that_is_made_wrong_is_the_one_that_is_named(
    found: dict[str, Any], direction: str, fault: str
) -> None:
    error = found["errors"][direction]
    assert named(error) == [direction], error
    assert re.search(fault, error)


def test_the_monitor_saw_links_and_switches_at_work(found: dict[str, Any]) -> None:
    samples = [json.loads(line) for line in found["samples"]]
    assert len(samples) >= 2
    assert sum(sample["releases"] for sample in samples) > 12 * 200  # each probe and each burst
    assert any(sample["links_cpu_pct"] > 0 for sample in samples)
    assert any(sample["switches_cpu_pct"] > 0 for sample in samples)
    assert not any("not watched" in reason for reason in found["reasons"])
