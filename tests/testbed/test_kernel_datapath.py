"""Three cities on the kernel's own switches and links, from `atoll up` to Ctrl-C.

Runs only where the kernel has Open vSwitch's datapath and netem; `make test-kernel` brings such a
kernel along.
"""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.links.probe import netem_available
from testbed.record.reader import load_run
from tests.testbed.atoll_process import ATOLL, AtollProcess, atoll, living_in, running_ids

pytestmark = [pytest.mark.root, pytest.mark.slow]
BRING_UP_LIMIT_S = 250.0  # an emulated processor needs the most of it


def kernel_has_switches() -> bool:
    subprocess.run(["modprobe", "-q", "openvswitch"], check=False)
    tried = subprocess.run(
        ["unshare", "--net", "ovs-dpctl", "add-dp", "trial"], capture_output=True, check=False
    )
    return tried.returncode == 0


@pytest.fixture(scope="module")
def wan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtollProcess]:
    if not kernel_has_switches():
        pytest.skip("Open vSwitch's datapath is not in this kernel")
    if not netem_available():
        pytest.skip("netem does not work on this machine")
    words = ("up", "three_city", "--datapath", "kernel", "--links", "netem", "--no-calibrate")
    with atoll(tmp_path_factory.mktemp("runs"), *words) as made:
        made.wait_until(lambda: "three_city is up" in made.said, BRING_UP_LIMIT_S, "up")
        yield made


def inside(namespace: int, *command: str) -> str:
    """What a command prints in a network namespace of the run."""
    pid = living_in({namespace})[0].pid
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_pair_of_islands_was_reached_both_ways(wan: AtollProcess) -> None:
    assert "all reached" in wan.said
    assert load_run(wan.record).manifest["datapath"] == "kernel"


def test_every_switch_has_its_ports_in_the_kernels_datapath(wan: AtollProcess) -> None:
    for site in ("AMS", "FRA", "LON"):
        shown = inside(wan.namespace_of("switch", site), "ovs-dpctl", "show")
        assert shown.startswith("system@ovs-system")
        assert re.findall(r"port \d+: (p\d)", shown) == ["p1", "p2", "p3"]


def test_the_kernel_forwards_what_islands_send(wan: AtollProcess) -> None:
    run_id = wan.record.name
    ping = [ATOLL, "exec", "AMS", "--run", run_id, "--", "ping", "-c", "5", "-i", "0.3", "lon"]
    pinged = subprocess.run(ping, capture_output=True, text=True, check=False)
    assert " 0% packet loss" in pinged.stdout, pinged.stdout + pinged.stderr
    flows = inside(wan.namespace_of("switch", "AMS"), "ovs-dpctl", "dump-flows").splitlines()
    hits = [re.search(r"eth_type\(0x0800\).*packets:([1-9]\d*)", flow) for flow in flows]
    assert sum(hit is not None for hit in hits) >= 2, flows  # there and back


def test_every_direction_is_shaped_by_netem(wan: AtollProcess) -> None:
    owner = wan.runtime.owner()
    assert owner is not None
    assert owner.first_process is not None
    root = Path(f"/proc/{owner.first_process.pid}/ns/net").stat().st_ino
    shown = inside(root, "tc", "qdisc", "show")
    assert len(re.findall(r"qdisc netem .* delay .* rate ", shown)) == 12  # 3 links, 3 ports


def test_ctrl_c_leaves_nothing_behind(wan: AtollProcess) -> None:
    namespaces = wan.namespaces()
    wan.process.send_signal(signal.SIGINT)
    assert wan.ends() == 130
    assert living_in(namespaces) == []
    assert wan.record.name not in running_ids()
