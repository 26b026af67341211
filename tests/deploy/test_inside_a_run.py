"""Islands inside a run's own PID, mount and network namespaces, as `atoll emulate` has them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.deploy.process_table import read_facts
from testbed.isolation import isolated

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

RUN = """
import importlib.util, os, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("bench", sys.argv[1])
bench_module = importlib.util.module_from_spec(spec)
sys.modules["bench"] = bench_module
spec.loader.exec_module(bench_module)
from testbed.deploy.island import start_islands

assert os.getpid() == 1
with bench_module.small_run() as bench:
    seats = [bench.add_node(site) for site in ("LON", "NYC")]
    with start_islands(bench.run_directory, seats) as islands, islands.fleet() as fleet:
        names = fleet.run("hostname")
        begun = fleet.start(
            dict.fromkeys(fleet.sites, "exec -a atoll-test-worker sleep 300"), bench.run_directory
        )
        said = [names[site].stdout.strip() for site in fleet.sites]
        print(bench.run_directory, *sorted(bench.namespaces()), *said, flush=True)
        if sys.argv[2] == "stay":
            time.sleep(300)
        fleet.end(begun, grace_s=2)
"""


def _begin(what: str) -> tuple[subprocess.Popen[str], Path, set[int], list[str]]:
    conftest = str(Path(__file__).parent / "conftest.py")
    process = subprocess.Popen(
        isolated([sys.executable, "-c", RUN, conftest, what]), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    directory, one, two, three, *said = process.stdout.readline().split()
    return process, Path(directory), {int(one), int(two), int(three)}, said


def test_a_run_deploys_inside_its_namespaces_and_ends_clean() -> None:
    process, directory, namespaces, said = _begin("go")
    assert said == ["lon", "nyc"]
    assert process.wait(timeout=60) == 0
    assert not directory.exists()
    assert _living(namespaces) == []


def test_killing_the_supervising_process_ends_every_island_and_worker() -> None:
    process, directory, namespaces, _ = _begin("stay")
    try:
        assert sum("atoll-test-worker" in command for command in _living(namespaces)) >= 2
        process.kill()
        process.wait(timeout=20)
        deadline = time.monotonic() + 20
        while _living(namespaces) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _living(namespaces) == []
    finally:
        subprocess.run(["rm", "-rf", str(directory)], check=True)


def _living(namespaces: set[int]) -> list[str]:
    return [" ".join(f.arguments) for f in read_facts() if f.netns_inode in namespaces]
