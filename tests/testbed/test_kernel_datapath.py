"""Three cities on the kernel's own switches and links: Open vSwitch's datapath, and netem.

Runs only where the kernel has both; `make test-kernel` brings such a kernel along.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.host_settings import wanted_settings
from testbed.isolation import isolated
from testbed.links.probe import netem_available
from testbed.supervisor import host_settings

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("in_a_kernel_wan.py")
LIMIT_S = 80 * float(os.environ.get("ATOLL_TIMING_SLACK", "1"))


def kernel_has_switches() -> bool:
    subprocess.run(["modprobe", "-q", "openvswitch"], check=False)
    tried = subprocess.run(
        ["unshare", "--net", "ovs-dpctl", "add-dp", "trial"], capture_output=True, check=False
    )
    return tried.returncode == 0


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    if not kernel_has_switches():
        pytest.skip("Open vSwitch's datapath is not in this kernel")
    if not netem_available():
        pytest.skip("netem does not work on this machine")
    holder = f"test-kernel-datapath-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="atoll-"))  # short: sockets' paths are
    host_settings().acquire(holder, wanted_settings("cubic"))
    try:
        done = subprocess.run(
            isolated([sys.executable, str(INSIDE), str(folder)]),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        host_settings().release(holder)
        shutil.rmtree(folder)


def test_every_pair_of_islands_is_reached_no_faster_than_light(found: dict[str, Any]) -> None:
    assert len(found["round_trips"]) == 6
    for row in found["round_trips"]:
        assert row["median_ms"] is not None, found
        assert row["median_ms"] >= row["asked_ms"]
    assert found["failure"] is None


def test_every_switch_has_its_ports_in_the_kernels_datapath(found: dict[str, Any]) -> None:
    for shown in found["datapaths"].values():
        assert shown.startswith("system@ovs-system")
        assert sorted(re.findall(r"port \d+: (p\d)", shown)) == ["p1", "p2", "p3"]


def test_it_was_the_kernel_that_forwarded(found: dict[str, Any]) -> None:
    # The first packet of a flow misses and goes to the daemon; those behind it meet the flow.
    for shown in found["datapaths"].values():
        lookups = re.search(r"lookups: hit:(\d+) missed:(\d+) lost:0", shown)
        assert lookups, shown
        assert int(lookups[1]) >= 6  # three probes of two others, there or back


def test_every_direction_is_shaped_by_netem(found: dict[str, Any]) -> None:
    assert found["netem_directions"] == 12  # three links and three access ports, both ways
