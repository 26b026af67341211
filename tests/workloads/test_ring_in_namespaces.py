"""The ring between islands that are network namespaces of their own, joined by a bridge."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.awaiting import await_round
from workloads.collectives.ring import expected_ring_payload_bytes

pytestmark = pytest.mark.root

SITES = ("NYC", "LON", "TYO")
ELEMENTS = 2_000_000
REPETITIONS = 3
ENTER = str(Path(__file__).with_name("enter_namespace.py"))

ALLREDUCES = f"""
import os, torch
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gloo import Limits, open_ring
from workloads.collectives.interfaces import choose_interface
from workloads.collectives.roster import Roster

endpoint = Endpoint.from_environment(os.environ)
interface = choose_interface(None, endpoint.address)
assert interface.name == "wan0", interface
ring = open_ring(endpoint, Roster(3), interface, "test", Limits(30, 30))
for _ in range({REPETITIONS}):
    ring.allreduce(torch.ones({ELEMENTS}))
ring.close()
"""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def islands() -> Iterator[list[str]]:
    """Three namespaces with 10.77.0.1 to .3 on `wan0`, and a fourth with the bridge."""
    names = [f"ring{os.getpid()}-{part}" for part in (*SITES, "bridge")]
    bridge = names[-1]
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for number, name in enumerate(names[:-1]):
            port = f"port{number}"
            ip("-n", bridge, "link", "add", port, "type", "veth", "peer", "wan0", "netns", name)
            ip("-n", bridge, "link", "set", port, "master", "br0", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "wan0")
            ip("-n", name, "link", "set", "wan0", "up")
        yield names[:-1]
    finally:
        for name in made:
            ip("netns", "del", name)


def bytes_sent(namespace: str) -> int:
    (interface,) = json.loads(ip("-n", namespace, "-s", "-j", "link", "show", "wan0"))
    sent: int = interface["stats64"]["tx"]["bytes"]
    return sent


def start(nursery: Any, islands: list[str], arguments: list[str]) -> list[int]:
    job = {"WORLD_SIZE": "3", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500"}
    return [
        nursery.start(
            [ENTER, island, *arguments],
            {**job, "RANK": str(rank), "ATOLL_SITES": ",".join(SITES)},
        )
        for rank, island in enumerate(islands)
    ]


def test_each_interface_sends_the_payload_of_its_hop_and_little_more(
    nursery: Any, islands: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "allreduce.py"
    script.write_text(ALLREDUCES)
    before = [bytes_sent(island) for island in islands]
    outcomes = [nursery.finish(worker) for worker in start(nursery, islands, [str(script)])]
    assert [outcome.exit_code for outcome in outcomes] == [0, 0, 0], outcomes
    for rank, island in enumerate(islands):
        payload = REPETITIONS * expected_ring_payload_bytes(4 * ELEMENTS, 3, rank)
        ratio = (bytes_sent(island) - before[rank]) / payload
        assert 1.0 < ratio < 1.06, (rank, ratio)


def test_both_sides_of_a_cut_link_say_whom_they_lost(
    nursery: Any, islands: list[str], tmp_path: Path
) -> None:
    endless = ["--preset", "tiny", "--rounds", "100000", "--no-progress"]
    limits = ["--collective-timeout-s", "3", "--out", f"{tmp_path}/{{rank}}"]
    workers = start(nursery, islands, ["-m", "workloads.training.train", *endless, *limits])
    await_round(tmp_path / "2" / "worker.jsonl")
    ip("-n", islands[1], "link", "set", "wan0", "down")
    outcomes = [nursery.finish(worker) for worker in workers]
    assert [outcome.exit_code for outcome in outcomes] == [1, 1, 1], outcomes
    for survivor in (outcomes[0], outcomes[2]):
        assert survivor.stderr.startswith("error: lost LON (rank 1): no answer from there")
    assert outcomes[1].stderr.startswith("error: lost NYC (rank 0), which keeps the rendezvous")
