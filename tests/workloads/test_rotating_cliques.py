"""Real workers that go through a schedule, over every order-free kind and over rings."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.process import AcceleratorProcess
from testbed.accelerator.process import Place as AcceleratorPlace
from tests.workloads.awaiting import await_round
from tests.workloads.loopback_group import Loopback
from workloads.innetwork.job import GroupJob, MemberPlace, TreeJob, dump_groups
from workloads.training.estimates import consensus_of_round
from workloads.training.records import read_events

TRAIN = ["-m", "workloads.training.train", "--interface", "lo", "--no-progress"]
DIGITS = ["--workload", "digits", "--local-steps", "2", "--held-out-windows", "8"]
SITES = ("AMS", "FRA", "LON", "NYC")
WORKERS = 4
GRID = [[(0, 1), (2, 3)], [(0, 2), (1, 3)]]
WITH_IDLE = [[(0, 1)], [(0, 1, 2, 3)], [(1, 2, 3)]]

Events = list[list[dict[str, Any]]]
Rounds = Sequence[Sequence[tuple[int, ...]]]


def write_schedule(folder: Path, kinds: str, rounds: Rounds) -> list[str]:
    """Write a schedule of one kind, or of several in turn; return the option that names it."""
    kind_of = cycle(kinds.split())
    document = {
        "format": 1,
        "sites": SITES,
        "rounds": [
            {"cliques": [{"ranks": ranks, "kind": kind} for ranks in cliques]}
            for kind, cliques in zip(kind_of, rounds, strict=False)
        ],
        "cycle": list(range(len(rounds))),
        "exact_mean": rounds == GRID,
    }
    path = folder / "schedule.json"
    path.write_text(json.dumps(document))
    return ["--schedule", str(path)]


class Groups:
    """The groups of all cliques of a schedule, on addresses of their own, and what serves them."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        self._folder = folder
        self._kind = kind
        self._stack = stack
        self.jobs: list[GroupJob] = []

    def add(self, ranks: tuple[int, ...]) -> None:
        lo = Loopback(self._folder, len(ranks))
        members = tuple(
            MemberPlace(rank, SITES[rank], lo.member(place)) for place, rank in enumerate(ranks)
        )
        everyone = tuple(range(len(ranks)))
        trees = [TreeJob(i, (i,), (0,), lo.group_address(i)) for i in everyone]
        if self._kind == "innetwork":
            box, group = lo.accelerator(0), lo.group_address(0)
            trees = [TreeJob(0, everyone, everyone, box, box, group)]
            self._serve(lo, members)
        job = GroupJob(self._kind, lo.job, 77, 64, 8904, 2000.0, 0.5, members, tuple(trees))
        self.jobs.append(job)

    def _serve(self, lo: Loopback, members: Sequence[MemberPlace]) -> None:
        box, group = lo.accelerator(0), lo.group_address(0)
        place = AcceleratorPlace(
            self._folder, f"box{len(self.jobs)}", Address(box.address, box.port), interface="lo"
        )
        accelerator = AcceleratorProcess.start(place)
        self._stack.callback(accelerator.close)
        addresses = tuple(Address(one.place.address, one.place.port) for one in members)
        results = (Address(group.address, group.port),)
        count = len(members)
        accelerator.open(
            TreeConfig(lo.job, 0, 77, 64, count, addresses, members=addresses, results=results)
        )


@contextmanager
def network(folder: Path, kind: str, rounds: Rounds) -> Iterator[list[str]]:
    """Write schedule and job file, and start accelerators; yield a worker's options."""
    options = write_schedule(folder, kind, rounds)
    with ExitStack() as stack:
        if kind in ("multicast", "innetwork"):
            groups = Groups(folder, kind, stack)
            for ranks in dict.fromkeys(ranks for cliques in rounds for ranks in cliques):
                groups.add(ranks)
            path = folder / "job.json"
            path.write_text(dump_groups(groups.jobs))
            options += ["--job-file", str(path)]
        yield options


@pytest.fixture
def trained(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> Callable[..., Events]:
    """Return what trains four workers to their end, and gives each one's events."""

    def train(kind: str, rounds: Rounds, *options: str) -> Events:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        with network(folder, kind, rounds) as names:
            job = [*TRAIN, *DIGITS, *names, *options, "--out", f"{folder}/{{rank}}"]
            workers = start_ranks(job, WORKERS, ",".join(SITES))
            assert [nursery.finish(worker).stderr for worker in workers] == [""] * WORKERS
        return [read_events(folder / str(rank) / "worker.jsonl") for rank in range(WORKERS)]

    return train


def of_kind(events: Events, kind: str) -> list[list[dict[str, Any]]]:
    return [[event for event in worker if event["event"] == kind] for worker in events]


def final_hash(events: Events) -> str:
    """Return the one hash that all workers hold in the end."""
    (only,) = {worker[0]["parameters_sha256"] for worker in of_kind(events, "final")}
    assert {worker[-1]["parameters_sha256"] for worker in events} == {only}
    return str(only)


def test_the_same_seed_gives_the_same_bits_over_every_order_free_kind(
    trained: Callable[..., Events],
) -> None:
    kinds = ("exchange", "multicast", "innetwork")
    options = ["--rounds", "3", "--outer", "diloco", "--overlap-fragments", "3"]
    found = {kind: trained(kind, GRID, *options) for kind in kinds}
    assert len({final_hash(events) for events in found.values()}) == 1
    rounds = [of_kind(events, "round") for events in found.values()]
    for fields in ("train_loss", "held_out_loss", "change_norm2", "sketch", "clique"):
        told = [[[e[fields] for e in worker] for worker in workers] for workers in rounds]
        assert told[0] == told[1] == told[2]


RING_AND_EXCHANGE = """
import os, sys
import numpy as np, torch
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import choose_interface
from workloads.collectives.kinds import Choice, assemble
from workloads.collectives.limits import Limits
from workloads.collectives.roster import Roster

endpoint = Endpoint.from_environment(os.environ)
roster = Roster.from_environment(endpoint.world_size, os.environ)
lo = choose_interface("lo", "127.0.0.1")
job = assemble(endpoint, roster, lo, Choice(), "test", Limits(30, 30))
members = (0, 2, 3)
if endpoint.rank in members:
    said = {
        rank: np.random.default_rng(rank).normal(size=100_003).astype(np.float32) * (1 + rank)
        for rank in members
    }
    exact = np.mean([vector.astype(np.float64) for vector in said.values()], axis=0)
    mine = torch.from_numpy(said[endpoint.rank])
    for kind, ranks in [("ring", (2, 0, 3)), ("exchange", members)]:
        collective = job.open(kind, ranks)
        mean = collective.allreduce(mine).double().numpy()
        assert collective.members == ranks
        largest = np.abs(list(said.values())).max(axis=0)
        block = np.maximum.reduceat(largest, np.arange(0, len(exact), 256))
        scale = largest if kind == "ring" else np.repeat(block, 256)[:len(exact)]
        print((np.abs(mean - exact) / scale).max())
job.part()
"""


def test_a_ring_and_integer_sums_each_keep_to_their_stated_error(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    script = tmp_path / "both.py"
    script.write_text(RING_AND_EXCHANGE)
    outcomes = [nursery.finish(w) for w in start_ranks([str(script)], WORKERS, ",".join(SITES))]
    assert [outcome.exit_code for outcome in outcomes] == [0] * WORKERS, outcomes
    for place in (0, 2, 3):
        ring, exchange = map(float, outcomes[place].stdout.split())
        # Two additions and a division in float32, each half a unit in the last place of at most
        # twice the largest number in the mean; integers of 29 bits, and one rounding to float32.
        assert 0 < ring <= 3 * 2**-23
        assert 0 < exchange <= 2**-23
    assert outcomes[1].stdout == ""


def test_each_worker_meets_its_clique_of_the_round_or_is_idle(
    trained: Callable[..., Events],
) -> None:
    events = trained("exchange", WITH_IDLE, "--rounds", "4")
    rounds = of_kind(events, "round")
    assert [e["clique"] for e in rounds[0]] == [["AMS", "FRA"], [*SITES], [], ["AMS", "FRA"]]
    assert [e["kind"] for e in rounds[3]] == [None, "exchange", "exchange", None]
    assert [e["plan_round"] for e in rounds[2]] == [0, 1, 2, 0]
    assert [e["consensus_distance"] is None for e in rounds[1]] == [True, False, True, True]
    assert final_hash(events) != ""
    require_sketches_to_agree([worker[1] for worker in rounds])
    opened = max(worker[0]["time"] for worker in events)
    assert all(worker[0]["local_start"] > opened + 0.3 for worker in rounds)


def require_sketches_to_agree(events: list[dict[str, Any]]) -> None:
    """Compare the distance from sketches with the exact one of a round in which all met."""
    exact = consensus_of_round(events)
    sketched = consensus_of_round([{**event, "consensus_distance": None} for event in events])
    assert exact is not None
    assert sketched is not None
    assert exact.relative_error == 0
    assert abs(sketched.value / exact.value - 1) < 4 * sketched.relative_error


def test_gradients_of_each_step_are_averaged_in_rotating_cliques_too(
    trained: Callable[..., Events],
) -> None:
    events = trained("exchange", GRID, "--rounds", "2", "--outer", "none", "--local-steps", "1")
    assert final_hash(events) != ""


def test_kinds_change_with_the_rounds_and_rings_keep_the_order_of_the_schedule(
    trained: Callable[..., Events],
) -> None:
    rounds = [[(3, 0, 2, 1)], [(1, 2, 3)], [(1, 3, 2)]]
    events = trained("ring exchange ring", rounds, "--rounds", "3", "--overlap-fragments", "2")
    told = of_kind(events, "round")[2]
    assert [event["kind"] for event in told] == ["ring", "exchange", "ring"]
    assert told[0]["clique"] == ["NYC", "AMS", "LON", "FRA"]
    assert told[2]["clique"] == ["FRA", "NYC", "LON"]
    assert final_hash(events) != ""


def test_all_end_after_the_round_in_the_stop_file(
    trained: Callable[..., Events], tmp_path: Path
) -> None:
    stop = tmp_path / "stop.json"
    stop.write_text('{"after_round": 2}')
    events = trained("exchange", GRID, "--rounds", "50", "--stop-file", str(stop))
    assert [len(worker) for worker in of_kind(events, "round")] == [3] * WORKERS
    assert [worker[-1]["rounds_done"] for worker in events] == [3] * WORKERS
    assert final_hash(events) != ""


def test_a_replay_checks_its_sums_and_ends_with_one_hash(
    trained: Callable[..., Events], tmp_path: Path
) -> None:
    layers = tmp_path / "layers.csv"
    layers.write_text("layer,numel,forward_ms,backward_ms\na,9000000,1,2\nb,9000000,1,2\n")
    options = ["--workload", "replay", "--layers", str(layers), "--message-scale", "0.001"]
    options += ["--overlap-fragments", "2"]
    events = trained("exchange", GRID, "--rounds", "3", *options)
    assert [e["message_bytes"] for e in of_kind(events, "round")[0]] == [72_000] * 3
    assert events[0][0]["part_bytes"] == [36_000, 36_000]
    assert final_hash(events) != ""


def test_a_worker_lost_from_another_clique_is_named_by_all(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    names = write_schedule(tmp_path, "ring", GRID)
    job = [*TRAIN, *DIGITS, *names, "--rounds", "100000", "--out", f"{tmp_path}/{{rank}}"]
    workers = start_ranks(job, WORKERS, ",".join(SITES))
    await_round(tmp_path / "3" / "worker.jsonl")
    os.kill(workers[3], signal.SIGKILL)
    outcomes = [nursery.finish(worker) for worker in workers]
    assert [outcome.exit_code for outcome in outcomes] == [1, 1, 1, -signal.SIGKILL]
    for survivor in outcomes[:3]:
        assert survivor.stderr.startswith("error: lost NYC (rank 3): no answer from there (")
        assert survivor.stderr.count("\n") == 1


def test_a_kind_that_needs_the_network_without_a_job_file_is_told_before_anybody_waits(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    names = write_schedule(tmp_path, "multicast", GRID)
    outcomes = [nursery.finish(w) for w in start_ranks([*TRAIN, *DIGITS, *names], WORKERS)]
    for outcome in outcomes:
        assert outcome.exit_code == 2
        text = "error: the schedule has cliques of multicast: give --job-file FILE\n"
        assert outcome.stderr == text
