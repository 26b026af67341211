"""The ring of gloo as the kernel sees it: bytes of each TCP connection between three processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.collectives.ring import (
    expected_ring_stream_bytes,
    ring_segments_sent,
    ring_successor,
)

MEMBERS = 3
ELEMENTS = [10, 100_003, 810_880]

ALLREDUCES_AND_COUNTS = """
import json, os, subprocess, sys, time
import torch
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gloo import Limits, open_ring
from workloads.collectives.interfaces import choose_interface
from workloads.collectives.roster import Roster

endpoint = Endpoint.from_environment(os.environ)
roster = Roster(endpoint.world_size)
ring = open_ring(endpoint, roster, choose_interface("lo", "127.0.0.1"), "test", Limits(30, 30))

def figure(words, name):
    return next((int(word.split(":")[1]) for word in words if word.startswith(name + ":")), 0)

def bytes_sent():  # without what TCP sent twice, as a busy machine makes it do even on loopback
    sockets = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
    mine = [line.split() for line in sockets.splitlines() if f"pid={os.getpid()}," in line]
    return {
        f"{words[3].split(':')[-1]} {words[4].split(':')[-1]}":
            figure(words, "bytes_sent") - figure(words, "bytes_retrans")
        for words in mine
    }

counts = []
for elements in json.loads(sys.argv[1]):
    ring.allreduce(torch.ones(1))
    time.sleep(0.3)
    before = bytes_sent()
    mean = ring.allreduce(torch.full((elements,), float(endpoint.rank)))
    time.sleep(0.3)
    counts.append({pair: count - before.get(pair, 0) for pair, count in bytes_sent().items()})
    assert (mean == sum(range(endpoint.world_size)) / endpoint.world_size).all()
print(json.dumps(counts), flush=True)
ring.close()
"""


def test_each_hop_carries_the_predicted_bytes_to_the_rank_below(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    script = tmp_path / "allreduce.py"
    script.write_text(ALLREDUCES_AND_COUNTS)
    workers = start_ranks([str(script), json.dumps(ELEMENTS)], MEMBERS)
    outcomes = [nursery.finish(worker) for worker in workers]
    assert [outcome.exit_code for outcome in outcomes] == [0] * MEMBERS, outcomes
    counts = [json.loads(outcome.stdout) for outcome in outcomes]
    rank_of = {pair: rank for rank in range(MEMBERS) for pair in counts[rank][0]}
    for step, elements in enumerate(ELEMENTS):
        for rank in range(MEMBERS):
            sent = {
                rank_of.get(" ".join(reversed(pair.split()))): count
                for pair, count in counts[rank][step].items()
                if count
            }
            headers = 48 * ring_segments_sent(4 * elements, MEMBERS, rank)
            expected = expected_ring_stream_bytes(4 * elements, MEMBERS, rank)
            below, above = ring_successor(rank, MEMBERS), (rank + 1) % MEMBERS
            assert abs(sent[below] - expected) <= headers, (rank, elements, sent)
            assert 0 < sent[above] <= 3 * headers, (rank, elements, sent)
